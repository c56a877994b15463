"""Neighbours on a map, as the graph of a `HiddenMRF`.

Shapes touch within a tolerance, so that their outlines need not list the same corners. It is a
share of the smaller of the two: what else is on the map does not matter.
"""

import warnings
from typing import Any

import numpy as np

from ...checks import check_choice

SAME = 1e-6  # of the extent of an area, within which it touches what is larger
ROUNDING = 2e-15  # of a coordinate: eight units in the last place
STRETCH = 10.0  # tolerances; a corner shares up to four with another


class Islands(UserWarning):
    """Some areas of a map have no neighbours, so that their states are independent."""


def neighbours(areas: Any, contiguity: str = "queen") -> Any:
    """Return which areas of a geopandas GeoDataFrame or GeoSeries touch: a frame (n, n) of 0 and 1.

    Its rows and columns have the index of the areas, by which `HiddenMRF` lines up columns of the
    same map. contiguity: "queen", neighbours share a point of their borders; "rook", a stretch.
    Coordinates may be of any kind. Warns of areas without neighbours. Raises ValueError naming an
    area that is no polygon, and two that are the same.
    """
    import shapely  # both come with geopandas
    from pandas import DataFrame

    check_choice("contiguity", contiguity, ("queen", "rook"))
    shapes = np.asarray(areas.geometry)
    polygons = np.isin(shapely.get_type_id(shapes), (3, 6)) & ~shapely.is_empty(shapes)
    for row in np.flatnonzero(~polygons):
        raise ValueError(f"row {row} is no polygon but {shapes[row]}: drop it or give its outline")
    left, low, right, high = shapely.bounds(shapes).T
    extent = np.maximum(right - left, high - low)
    largest = abs(shapely.bounds(shapes)).max(axis=1)
    tolerance = np.maximum(SAME * extent, ROUNDING * largest)
    near = shapely.STRtree(shapes).query(shapes, "dwithin", tolerance)
    pairs = np.unique(near[:, near[0] < near[1]].T, axis=0)
    slack = tolerance[pairs].min(axis=1)
    normal = shapely.normalize(shapes)[pairs].T
    for i, j in pairs[shapely.equals_exact(*normal, slack)]:
        raise ValueError(f"rows {i} and {j} are the same area twice: drop one, or add their counts")
    a, b = shapes[pairs].T
    touch = shapely.dwithin(a, b, slack)
    if contiguity == "rook":
        wide = shapely.buffer(shapely.boundary(b), slack)
        touch &= shapely.length(shapely.intersection(shapely.boundary(a), wide)) > STRETCH * slack
    first, second = pairs[touch].T
    found = np.zeros((len(shapes), len(shapes)), int)
    found[first, second] = found[second, first] = 1
    alone = np.flatnonzero(found.sum(axis=1) == 0)
    if alone.size:
        islands = f"{alone.size} areas have no neighbours, such as those of rows {alone[:5]}"
        remedy = "true islands, or outlines that were simplified one by one?"
        warnings.warn(f"{islands}: {remedy}", Islands, stacklevel=2)
    return DataFrame(found, areas.index, areas.index)
