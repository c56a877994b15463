"""Areas of a map, of a GeoDataFrame or a GeoJSON file: their columns and outlines."""

import json
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np


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


def outlines_of(features: list[dict]) -> list[list[np.ndarray]]:
    """Return the closed rings (p, 2) of each area, which lies on their left.

    Outer ones are counter-clockwise, holes clockwise. Raises ValueError naming a row that is no
    polygon.
    """
    return [_rings(row, feature.get("geometry") or {}) for row, feature in enumerate(features)]


def _rings(row, geometry):
    kind = geometry.get("type")
    polygons = geometry.get("coordinates")
    if kind not in ("Polygon", "MultiPolygon") or not polygons:
        got = f"row {row} is no polygon but {kind}, {polygons!r:.30}"
        raise ValueError(f"{got}: drop it or give it an outline")
    rings = []
    for outer, *holes in [polygons] if kind == "Polygon" else polygons:
        rings += [_turned(outer, 1), *(_turned(hole, -1) for hole in holes)]
    return rings


def _turned(ring, direction):
    """A ring (p, 2), counter-clockwise where the direction is 1, clockwise where it is -1."""
    corners = np.array(ring, float)[:, :2]
    x, y = corners.T
    twice_area = np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    return corners if twice_area * direction > 0 else corners[::-1]
