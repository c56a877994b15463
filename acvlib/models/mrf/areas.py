"""Counts by area: tracts, districts, cells; with their neighbours and, for a map, outlines."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...checks import check_kind
from .contiguity import neighbours


@dataclass(frozen=True, eq=False, repr=False)
class Areas:
    """n areas with counts, neighbours and, for a map, outlines.

    Parameters
    ----------
    counts : (n,) int64
    edges : (m, 2) int64, neighbours, each pair once
    sha256 : of the files, or of simulated counts
    outlines : for each area its rings (p, 2), outer ones counter-clockwise and holes clockwise; of
        longitude and latitude where `in_degrees`, else of x and y; empty where there is no map
    exposure : (n,), such as the people of an area; None where a count is per area
    """

    counts: np.ndarray
    edges: np.ndarray
    provenance: Literal["real", "simulated"]
    sha256: str
    name: str
    outlines: list = field(default_factory=list)
    in_degrees: bool = False
    exposure: Any = None

    @property
    def aspect(self) -> float:
        """A unit of y over one of x as drawn: degrees of longitude shrink with latitude."""
        if not self.in_degrees:
            return 1.0
        latitudes = np.concatenate([ring[:, 1] for rings in self.outlines for ring in rings])
        return float(1.0 / np.cos(np.deg2rad(latitudes.mean())))

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        size = f"{len(self):,} areas, {len(self.edges):,} edges"
        return f"Areas({self.name}: {size}, {self.provenance})"


def areas_from_map(
    areas: Any, counts: str, exposure: Any = None, contiguity: str = "queen"
) -> Areas:
    """Read a map of polygons: a GeoDataFrame, or the path of a GeoJSON file.

    Parameters
    ----------
    counts, exposure : names of columns; exposure may be an array (n,)
    contiguity : "queen", neighbours share a point of their borders; "rook", a stretch

    Corners within a millionth of the map's extent are the same; outlines must not have been
    simplified one by one. Raises ValueError naming a row without a count or a polygon, and two that
    are the same.
    """
    check_kind("counts", counts, str)
    features = _features(areas)
    numbers = [_count(number, feature, counts) for number, feature in enumerate(features)]
    if isinstance(exposure, str):
        exposure = [_value(number, each, exposure) for number, each in enumerate(features)]
    outlines = read_outlines(areas)
    is_path = not hasattr(areas, "__geo_interface__")
    source = Path(areas).read_bytes() if is_path else repr(numbers).encode()
    return Areas(
        counts=np.array(numbers, np.int64),
        edges=neighbours(outlines, contiguity),
        provenance="real",
        sha256=hashlib.sha256(source).hexdigest(),
        name=f"{Path(areas).stem}, {counts}" if is_path else counts,
        outlines=outlines,
        in_degrees=is_path or bool(getattr(areas.crs, "is_geographic", False)),
        exposure=exposure,
    )


def read_outlines(areas: Any) -> list[list[np.ndarray]]:
    """Return the rings of each area of a map, in the order of its rows."""
    return [_rings(number, feature) for number, feature in enumerate(_features(areas))]


def _features(areas):
    collection = getattr(areas, "__geo_interface__", None) or _parsed(Path(areas))
    features = collection.get("features") if isinstance(collection, dict) else None
    if not features:
        raise ValueError(f"{areas!r:.60} holds no features: pass a GeoDataFrame or a GeoJSON path")
    return features


def _parsed(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no text
        remedy = "read it by geopandas.read_file, and pass the frame"
        raise ValueError(f"{path} is no GeoJSON ({error}): {remedy}") from None


def _rings(number, feature):
    geometry = feature.get("geometry") or {}
    kind = geometry.get("type")
    polygons = geometry.get("coordinates")
    if kind not in ("Polygon", "MultiPolygon") or not polygons:
        found = f"row {number} is no polygon but {kind}, {polygons!r:.30}"
        raise ValueError(f"{found}: drop it or give it an outline")
    if kind == "Polygon":
        polygons = [polygons]
    rings = []
    for outer, *holes in polygons:
        rings.append(_turned(outer, 1))
        rings += [_turned(hole, -1) for hole in holes]
    return rings


def _turned(ring, direction):
    """A ring (p, 2), counter-clockwise where the direction is 1, clockwise where it is -1."""
    corners = np.array(ring, float)[:, :2]
    x, y = corners.T
    twice_area = np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    return corners if twice_area * direction > 0 else corners[::-1]


def _value(number, feature, column):
    properties = feature.get("properties") or {}
    if column not in properties:
        names = ", ".join(properties) or "none"
        raise ValueError(f"row {number} has no column {column!r}; it has {names}")
    return properties[column]


def _count(number, feature, column):
    value = _value(number, feature, column)
    if not isinstance(value, int | float) or value < 0 or value % 1 != 0:
        raise ValueError(f"row {number}: {column} = {value!r} is no whole number >= 0")
    return int(value)
