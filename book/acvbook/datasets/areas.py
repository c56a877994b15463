"""Counts by area: tracts, districts, cells; with their neighbours and, for a map, outlines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np


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


def outlines_of(features: list[dict]) -> list[list[np.ndarray]]:
    """The closed rings (p, 2) of each polygon, outer ones counter-clockwise, holes clockwise."""
    outlines = []
    for geometry in (feature["geometry"] for feature in features):
        polygons = geometry["coordinates"]
        rings = []
        for outer, *holes in [polygons] if geometry["type"] == "Polygon" else polygons:
            rings += [_turned(outer, 1), *(_turned(hole, -1) for hole in holes)]
        outlines.append(rings)
    return outlines


def _turned(ring, direction):
    """A ring (p, 2), counter-clockwise where the direction is 1, clockwise where it is -1."""
    corners = np.array(ring, float)[:, :2]
    x, y = corners.T
    twice_area = np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    return corners if twice_area * direction > 0 else corners[::-1]
