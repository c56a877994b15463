"""Areas of a map, of a GeoDataFrame or a GeoJSON file: their columns, shapes and neighbours.

Shapes touch within a tolerance, so that their outlines need not list the same corners. It is a
share of the smaller of the two: what else is on the map does not matter.
"""

import json
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import check_choice

SAME = 1e-6  # of the extent of an area, within which it touches what is larger
ROUNDING = 2e-15  # of a coordinate: eight units in the last place
STRETCH = 10.0  # tolerances; a corner shares up to four with another


def read_features(areas: Any) -> list[dict]:
    """Return the features of a GeoDataFrame, or of the GeoJSON file at a path, in their order.

    Raises ValueError where there are none, or the file is no GeoJSON.
    """
    collection = getattr(areas, "__geo_interface__", None)
    if collection is None:
        try:
            collection = json.loads(Path(areas).read_text(encoding="utf-8"))
        except ValueError as error:  # no JSON, or no text
            remedy = "read it by geopandas.read_file, and pass the frame"
            raise ValueError(f"{areas} is no GeoJSON ({error}): {remedy}") from None
    features = collection.get("features") if isinstance(collection, dict) else None
    if not features:
        raise ValueError(f"{areas!r:.60} holds no features: pass a GeoDataFrame or a GeoJSON path")
    return features


def column_of(features: list[dict], name: str) -> np.ndarray:
    """Return the numbers (n,) of a column; ValueError names a row without one."""
    numbers = []
    for row, feature in enumerate(features):
        properties = feature.get("properties") or {}
        if name not in properties:
            known = ", ".join(properties) or "none"
            raise ValueError(f"row {row} has no column {name!r}; it has {known}")
        value = properties[name]
        if not isinstance(value, Real):
            raise ValueError(f"row {row}: {name} = {value!r:.30} is no number")
        numbers.append(value)
    return np.array(numbers)


def shapes_of(features: list[dict]) -> np.ndarray:
    """Return the polygons (n,) of shapely; ValueError names a row that is none.

    Raises ImportError without shapely, which geopandas brings.
    """
    try:
        from shapely.geometry import shape
    except ImportError as error:
        raise ImportError("maps need shapely: pip install geopandas") from error
    shapes = np.empty(len(features), object)
    for row, feature in enumerate(features):
        geometry = feature.get("geometry") or {}
        corners = geometry.get("coordinates")
        if geometry.get("type") not in ("Polygon", "MultiPolygon") or not corners:
            got = f"row {row} is no polygon but {geometry.get('type')}, {corners!r:.30}"
            raise ValueError(f"{got}: drop it or give it an outline")
        shapes[row] = shape(geometry)
    return shapes


def neighbours(shapes: np.ndarray, contiguity: str = "queen") -> np.ndarray:
    """Return the pairs of areas (m, 2) whose borders share a point (queen) or a stretch (rook).

    Raises ValueError where two areas are the same.
    """
    import shapely

    check_choice("contiguity", contiguity, ("queen", "rook"))
    left, low, right, high = shapely.bounds(shapes).T
    extent = np.maximum(right - left, high - low)
    largest = abs(shapely.bounds(shapes)).max(axis=1)
    tolerance = np.maximum(SAME * extent, ROUNDING * largest)
    near = shapely.STRtree(shapes).query(shapes, "dwithin", tolerance)
    pairs = np.unique(near[:, near[0] < near[1]].T, axis=0)
    a, b = shapes[pairs].T
    slack = tolerance[pairs].min(axis=1)
    normal = shapely.normalize(shapes)[pairs].T
    for i, j in pairs[shapely.equals_exact(*normal, slack)]:
        remedy = "drop one, or add their counts"
        raise ValueError(f"rows {i} and {j} are the same area twice: {remedy}")
    touch = shapely.dwithin(a, b, slack)
    if contiguity == "rook":
        wide = shapely.buffer(shapely.boundary(b), slack)
        touch &= shapely.length(shapely.intersection(shapely.boundary(a), wide)) > STRETCH * slack
    return pairs[touch].astype(np.int64)
