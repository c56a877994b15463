"""Which areas of a map are neighbours: those whose borders share a point, or a stretch.

Corners are the same within a tolerance, and a corner that lies on another area's side splits it, so
that outlines need not list the same corners. The tolerance is a share of the smaller of the areas
that touch: what else is on the map does not matter.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array, triu
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ...checks import check_choice

SAME = 1e-5  # of an area's extent, within which its corners are those of others
ROUNDING = 2e-15  # of a coordinate: eight units in the last place


def neighbours(outlines: list[list[np.ndarray]], contiguity: str = "queen") -> np.ndarray:
    """Return the pairs of areas (m, 2) whose borders share a point (queen) or a stretch (rook).

    outlines: for each area its closed rings (p, 2), the area on their left.
    Raises ValueError where two areas are the same.
    """
    check_choice("contiguity", contiguity, ("queen", "rook"))
    start, end, area = _pieces(outlines)
    _check_distinct(start, area, len(outlines))
    ends = np.sort(np.stack([start, end], 1), axis=1)
    shared = start[:, None] if contiguity == "queen" else ends
    _, number = np.unique(shared, axis=0, return_inverse=True)
    there = coo_array((np.ones(len(number)), (number.ravel(), area))).tocsr()
    together = triu(there.T @ there, 1, format="csr")
    together.sort_indices()
    return np.transpose(together.nonzero()).astype(np.int64)


def _pieces(outlines):
    """(start, end, area) of all borders as directed pieces between numbered points.

    They are split wherever a corner lies on them.
    """
    rings = [(area, ring) for area, rings in enumerate(outlines) for ring in rings]
    corners = np.concatenate([ring[:-1] for _, ring in rings] + [ring[1:] for _, ring in rings])
    area = np.repeat(*np.transpose([(area, len(ring) - 1) for area, ring in rings]))
    tolerance = np.array([_tolerance(np.concatenate(rings)) for rings in outlines])[area]
    point = _numbered(corners, np.tile(tolerance, 2))
    first, last = point.reshape(2, -1)
    place = np.empty((point.max() + 1, 2))
    place[point] = corners
    narrowest = np.full(len(place), np.inf)
    np.minimum.at(narrowest, first, tolerance)
    side, share, between = _points_on_sides(place, narrowest, first, last, tolerance)
    numbers = np.arange(len(first))
    sides = np.concatenate([numbers, side, numbers])
    shares = np.concatenate([np.zeros(len(first)), share, np.ones(len(first))])
    points = np.concatenate([first, between, last])
    order = np.lexsort([shares, sides])
    sides = sides[order]
    points = points[order]
    real = (sides[1:] == sides[:-1]) & (points[1:] != points[:-1])
    return points[:-1][real], points[1:][real], area[sides[:-1][real]]


def _tolerance(corners):
    """How far from an area's corners or sides others may be and touch it."""
    return max(SAME * np.ptp(corners, axis=0).max(), ROUNDING * abs(corners).max())


def _numbered(corners, tolerance):
    """A number for each corner (c, 2); the same for those within the tolerances (c,) of both."""
    near = cKDTree(corners).query_ball_point(corners, tolerance)
    starts = np.cumsum([0, *map(len, near)])
    within = csr_array((np.ones(starts[-1]), np.concatenate(near).astype(int), starts))
    return connected_components(within.multiply(within.T), directed=False)[1]


def _points_on_sides(place, narrowest, first, last, tolerance):
    """(side, share of its length, point) of each point that lies between a side's ends."""
    start = place[first]
    along = place[last] - start
    length = np.maximum(np.linalg.norm(along, axis=1), np.finfo(float).tiny)
    near = cKDTree(place).query_ball_point(start + 0.5 * along, 0.5 * length + tolerance)
    side = np.repeat(np.arange(len(near)), [len(points) for points in near])
    point = np.concatenate(near).astype(int)
    other = (point != first[side]) & (point != last[side])
    side = side[other]
    point = point[other]
    offset = place[point] - start[side]
    unit = along[side] / length[side, None]
    share = np.einsum("ni,ni->n", offset, unit) / length[side]
    aside = abs(offset[:, 0] * unit[:, 1] - offset[:, 1] * unit[:, 0])
    touches = aside <= np.minimum(tolerance[side], narrowest[point])
    on = touches & (share > 0) & (share < 1)
    return side[on], share[on], point[on]


def _check_distinct(start, area, n_areas):
    """Refuse two areas with the same corners; borders that merely overlap are in many maps."""
    seen = {}
    for number, corners in enumerate(np.split(start, np.searchsorted(area, np.arange(1, n_areas)))):
        other = seen.setdefault(frozenset(corners.tolist()), number)
        if other != number:
            remedy = "drop one, or add their counts"
            raise ValueError(f"rows {other} and {number} are the same area twice: {remedy}")
