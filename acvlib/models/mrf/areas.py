"""Counts by area: tracts, districts, cells; with their neighbours and, for a map, their outlines."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Areas:
    """n areas. counts: (n,) int64; edges: (m, 2) int64, neighbours, each pair once.

    outlines: for each area its rings, each (p, 2), outer ones counter-clockwise and holes clockwise, of longitude
    and latitude where `in_degrees`, else of x and y; empty where there is no map. sha256: of the files, or of
    simulated counts.
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
        """How much longer a unit of y is drawn than one of x: degrees of longitude shrink with latitude."""
        if not self.in_degrees:
            return 1.0
        latitudes = np.concatenate([ring[:, 1] for rings in self.outlines for ring in rings])
        return float(1.0 / np.cos(np.deg2rad(latitudes.mean())))

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        return (
            f"Areas({self.name}: {len(self):,} areas, {len(self.edges):,} edges, {self.provenance})"
        )


def areas_from_geojson(path: str | Path, column: str, decimals: int = 5) -> Areas:
    """Any map of polygons with a property `column` of counts; two areas that share a corner are neighbours.

    Queen contiguity: corners are the same where they agree to `decimals` places, so outlines must not have been
    simplified one by one. Raises KeyError naming the properties there are, and ValueError for features without
    a polygon or counts that are no whole numbers >= 0.
    """
    path = Path(path)
    features = json.loads(path.read_text(encoding="utf-8"))["features"]
    outlines = [_rings(number, feature) for number, feature in enumerate(features)]
    counts = np.array(
        [_count(number, feature, column) for number, feature in enumerate(features)], np.int64
    )
    edges = shared_corners(outlines, decimals)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return Areas(counts, edges, "real", sha256, f"{path.stem}, {column}", outlines, True)


def read_outlines(path: Path) -> list[list[np.ndarray]]:
    """The rings of each feature of a geojson file, in its order."""
    features = json.loads(path.read_text(encoding="utf-8"))["features"]
    return [_rings(number, feature) for number, feature in enumerate(features)]


def _rings(number, feature):
    geometry = feature.get("geometry") or {}
    if geometry.get("type") not in ("Polygon", "MultiPolygon"):
        raise ValueError(
            f"feature {number} is no polygon but {geometry.get('type')}: drop it, or give it an outline"
        )
    polygons = (
        [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
    )
    return [
        _turned(ring, outer=place == 0)
        for polygon in polygons
        for place, ring in enumerate(polygon)
    ]


def _turned(ring, outer):
    """A ring (p, 2), counter-clockwise where it is an outer one and clockwise where it is a hole."""
    x, y = corners = np.array(ring, float)[:, :2].T
    twice_area = np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    return corners.T if (twice_area > 0) == outer else corners.T[::-1]


def _count(number, feature, column):
    properties = feature.get("properties") or {}
    if column not in properties:
        raise KeyError(
            f"feature {number} has no property {column!r}; it has {', '.join(properties) or 'none'}"
        )
    value = properties[column]
    if not isinstance(value, (int, float)) or not (value >= 0 and value == int(value)):
        raise ValueError(f"feature {number}: {column} = {value!r} is no whole number >= 0")
    return int(value)


def shared_corners(outlines, decimals=5):
    """(m, 2): the pairs of areas with a corner in common."""
    owners = defaultdict(set)
    for area, rings in enumerate(outlines):
        for corner in np.unique(np.round(np.concatenate(rings), decimals), axis=0):
            owners[tuple(corner)].add(area)
    pairs = {pair for areas in owners.values() for pair in combinations(sorted(areas), 2)}
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def counts_sha256(counts: np.ndarray) -> str:
    """The sha256 of counts as little-endian 64-bit integers."""
    return hashlib.sha256(np.asarray(counts, "<i8").tobytes()).hexdigest()
