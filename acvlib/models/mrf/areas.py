"""Counts by area: tracts, districts, cells; with their neighbours and, for a map, outlines."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from ...checks import check_kind


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
    """

    counts: np.ndarray
    edges: np.ndarray
    provenance: Literal["real", "simulated"]
    sha256: str
    name: str
    outlines: list = field(default_factory=list)
    in_degrees: bool = False

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


def areas_from_geojson(path: str | Path, column: str, decimals: int = 5) -> Areas:
    """Read any map of polygons with a property `column` of counts.

    Areas that share a corner are neighbours (queen contiguity). Corners are the same where they
    agree to `decimals` places, so outlines must not have been simplified one by one.
    Raises ValueError naming a feature without that property, a count or an outline.
    """
    path = Path(path)
    check_kind("column", column, str)
    outlines = read_outlines(path)
    counts = [_count(number, feature, column) for number, feature in enumerate(_features(path))]
    return Areas(
        counts=np.array(counts, np.int64),
        edges=shared_corners(outlines, decimals),
        provenance="real",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        name=f"{path.stem}, {column}",
        outlines=outlines,
        in_degrees=True,
    )


def read_outlines(path: Path) -> list[list[np.ndarray]]:
    """Return the rings of each feature of a geojson file, in its order."""
    return [_rings(number, feature) for number, feature in enumerate(_features(path))]


def _features(path):
    return json.loads(path.read_text(encoding="utf-8"))["features"]


def _rings(number, feature):
    geometry = feature.get("geometry") or {}
    kind = geometry.get("type")
    if kind not in ("Polygon", "MultiPolygon"):
        found = f"feature {number} is no polygon but {kind}"
        raise ValueError(f"{found}: drop it or give it an outline")
    polygons = geometry["coordinates"]
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


def _count(number, feature, column):
    properties = feature.get("properties") or {}
    if column not in properties:
        names = ", ".join(properties) or "none"
        raise ValueError(f"feature {number} has no property {column!r}; it has {names}")
    value = properties[column]
    if not isinstance(value, int | float) or value < 0 or value % 1 != 0:
        raise ValueError(f"feature {number}: {column} = {value!r} is no whole number >= 0")
    return int(value)


def shared_corners(outlines: list[list[np.ndarray]], decimals: int = 5) -> np.ndarray:
    """Return the pairs of areas (m, 2) with a corner in common."""
    owners = defaultdict(set)
    for area, rings in enumerate(outlines):
        corners = np.round(np.concatenate(rings), decimals)
        for corner in corners.tolist():
            owners[tuple(corner)].add(area)
    pairs = set()
    for areas in owners.values():
        pairs |= set(combinations(sorted(areas), 2))
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)
