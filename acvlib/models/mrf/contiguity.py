"""Which areas of a map are neighbours: those whose borders share a point, or a stretch.

Corners are the same within a tolerance, and a corner that lies on another area's side splits it, so
that outlines need not list the same corners.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array, triu
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ...checks import check_choice

SAME = 1e-6  # of the map's extent, within which corners are the same


class Pieces(NamedTuple):
    """Directed pieces of borders between numbered points, with their area on the left."""

    start: np.ndarray
    end: np.ndarray
    area: np.ndarray


def neighbours(outlines: list[list[np.ndarray]], contiguity: str = "queen") -> np.ndarray:
    """Return the pairs of areas (m, 2) whose borders share a point (queen) or a stretch (rook).

    outlines: for each area its closed rings (p, 2), the area on their left.
    Raises ValueError where two areas are the same.
    """
    check_choice("contiguity", contiguity, ("queen", "rook"))
    pieces = _pieces(outlines)
    _check_distinct(pieces, len(outlines))
    ends = np.sort(np.stack([pieces.start, pieces.end], 1), axis=1)
    shared = pieces.start[:, None] if contiguity == "queen" else ends
    _, number = np.unique(shared, axis=0, return_inverse=True)
    there = coo_array((np.ones(len(number)), (number.ravel(), pieces.area))).tocsr()
    together = triu(there.T @ there, 1, format="csr")
    together.sort_indices()
    return np.transpose(together.nonzero()).astype(np.int64)


def _pieces(outlines):
    """All borders as pieces between points, split wherever a corner lies on them."""
    starts, ends, area = _sides(outlines)
    tolerance = SAME * np.ptp(starts, axis=0).max()
    point = _numbered(np.concatenate([starts, ends]), tolerance)
    first, last = point.reshape(2, -1)
    place = np.empty((point.max() + 1, 2))
    place[first] = starts
    side, share, between = _corners_on_sides(place, first, last, tolerance)
    numbers = np.arange(len(first))
    sides = np.concatenate([numbers, side, numbers])
    shares = np.concatenate([np.zeros(len(first)), share, np.ones(len(first))])
    points = np.concatenate([first, between, last])
    order = np.lexsort([shares, sides])
    sides = sides[order]
    points = points[order]
    real = (sides[1:] == sides[:-1]) & (points[1:] != points[:-1])
    return Pieces(points[:-1][real], points[1:][real], area[sides[:-1][real]])


def _sides(outlines):
    """(starts (s, 2), ends (s, 2), areas (s,)) of all sides of all rings."""
    rings = [(number, ring) for number, own in enumerate(outlines) for ring in own]
    starts = np.concatenate([ring[:-1] for _, ring in rings])
    ends = np.concatenate([ring[1:] for _, ring in rings])
    return starts, ends, np.repeat(*np.transpose([(n, len(ring) - 1) for n, ring in rings]))


def _numbered(corners, tolerance):
    """A number for each corner (c, 2); the same for those within the tolerance."""
    near = cKDTree(corners).query_pairs(tolerance, output_type="ndarray")
    shape = (len(corners), len(corners))
    same = csr_array((np.ones(len(near)), near.T), shape)
    return connected_components(same, directed=False)[1]


def _corners_on_sides(place, first, last, tolerance):
    """(side, share of its length, point) of each point that lies between a side's ends."""
    start = place[first]
    along = place[last] - start
    length = np.linalg.norm(along, axis=1)
    found = cKDTree(place).query_ball_point(start + 0.5 * along, 0.5 * length + tolerance)
    side = np.repeat(np.arange(len(found)), [len(points) for points in found])
    point = np.concatenate(found).astype(int)
    other = (point != first[side]) & (point != last[side])
    side = side[other]
    point = point[other]
    offset = place[point] - start[side]
    unit = along[side] / length[side, None]
    share = np.einsum("ni,ni->n", offset, unit) / length[side]
    aside = abs(offset[:, 0] * unit[:, 1] - offset[:, 1] * unit[:, 0])
    on = (aside <= tolerance) & (share > 0) & (share < 1)
    return side[on], share[on], point[on]


def _check_distinct(pieces, n_areas):
    """Refuse two areas with the same corners; borders that merely overlap are in many maps."""
    seen = {}
    own = np.split(pieces.start, np.searchsorted(pieces.area, np.arange(1, n_areas)))
    for area, corners in enumerate(own):
        other = seen.setdefault(frozenset(corners.tolist()), area)
        if other != area:
            remedy = "drop one, or add their counts"
            raise ValueError(f"rows {other} and {area} are the same area twice: {remedy}")
