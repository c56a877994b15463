"""Violent crimes in Philadelphia's 384 census tracts of 2010, by month, and a simulator."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from . import registry

# The paper's own month, May 2015, is not to be had.
JUNE_2015, MAY_2016 = "violent_2015_06", "violent_2016_05"

# The real set's size, and rounded values of its scale.
_ROWS, _COLUMNS = 48, 8  # narrow, as a square of as many cells is too wide for exact sums
_RATES = np.array([4.5, 16.0])  # violent crimes in a month
_COUPLING = 0.5  # of the classes, per edge: 2 beta; just below the order of the infinite field
_SWEEPS = 60


def load_philadelphia(column: str = JUNE_2015) -> Areas:
    """384 tracts, 1,153 edges (queen contiguity), counts from a column of tracts.csv.

    Columns: `violent_2015_06` (June 2015, sum 3,578), `violent_2016_05` (May 2016, sum 3,729),
    `violent_2015_annual`, `all_2015_05`, `all_2015_06`. Raises KeyError for others, DataNotFound or
    DataCorrupt. Source: Philadelphia Police Department and City of Philadelphia, OpenDataPhilly;
    `data/README.md` tells how it was assembled, and how it differs from the counts of Ghosh et al.
    (2020).
    """
    import pandas as pd

    tracts = registry.find("philadelphia", "tracts.csv")
    table = pd.read_csv(tracts)
    if column not in table:
        raise KeyError(f"no column {column!r} in tracts.csv; it has {', '.join(table.columns)}")
    neighbours = registry.find("philadelphia", "edges.csv")
    edges = pd.read_csv(neighbours)[["i", "j"]].to_numpy(np.int64)
    tracts_map = registry.find("philadelphia", "tracts_2010.geojson")
    features = json.loads(tracts_map.read_text("utf-8"))["features"]
    outlines = [_rings(tract["geometry"]) for tract in features]
    counts = table[column].to_numpy(np.int64)
    sha256, name = _sha256(tracts, neighbours), f"philadelphia, {column}"
    return Areas(counts, edges, "real", sha256, name, outlines, True)


def _rings(geometry):
    """The closed rings (p, 2) of one or several polygons."""
    several = geometry["type"] == "MultiPolygon"
    polygons = geometry["coordinates"] if several else [geometry["coordinates"]]
    return [np.array(ring, float)[:, :2] for polygon in polygons for ring in polygon]


def load_philadelphia_toy() -> Areas:
    """The authors' own 21 areas, 42 edges, 1,148 crimes: all that they published; no outlines."""
    import pandas as pd

    counts = registry.find("philadelphia", "authors_toy_21/counts.csv")
    neighbours = registry.find("philadelphia", "authors_toy_21/edges.csv")
    values = pd.read_csv(counts).iloc[:, -1].to_numpy(np.int64)
    edges = pd.read_csv(neighbours).to_numpy(np.int64)
    return Areas(values, edges, "real", _sha256(counts, neighbours), "authors' toy")


def simulate_philadelphia(rng: np.random.Generator) -> Areas:
    """A stand-in: 384 hexagonal cells in two classes that neighbours tend to share,
    with the real set's rates.

    The classes are a draw of the Potts field by Gibbs sampling. Source: the model of Ghosh et al.
    (2020), Appendix L.3.
    """
    outlines, edges = hexagons(_ROWS, _COLUMNS)
    classes = _gibbs(edges, len(outlines), rng)
    counts = rng.poisson(_RATES[classes])
    return Areas(
        counts, edges, "simulated", registry.checksum(counts), "philadelphia, simulated", outlines
    )


def simulate_toy(rng: np.random.Generator) -> Areas:
    """A stand-in for the authors' 21 areas: 7 x 3 cells, at the level of their counts."""
    outlines, edges = hexagons(7, 3)
    counts = rng.poisson(np.where(_gibbs(edges, 21, rng) == 1, 72, 28))
    return Areas(counts, edges, "simulated", registry.checksum(counts), "toy, simulated", outlines)


def hexagons(rows: int, columns: int) -> tuple[list, np.ndarray]:
    """(outlines, edges) of a honeycomb; every second row is shifted by half a cell."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    centres = np.stack([column + 0.5 * (row % 2), row * np.sqrt(3) / 2], axis=1)
    angles = np.pi / 6 + np.arange(7) * np.pi / 3
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(3)
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)
    return [[centre + rim] for centre in centres], np.argwhere(np.triu(apart < 1.01, 1))


def _gibbs(edges, n, rng):
    """Classes 0 or 1 of n cells from the Potts field, from a random start."""
    neighbours = [
        np.concatenate([edges[edges[:, 0] == i, 1], edges[edges[:, 1] == i, 0]]) for i in range(n)
    ]
    z = rng.integers(2, size=n)
    for _ in range(_SWEEPS):
        for i, uniform in enumerate(rng.random(n)):
            pull = _COUPLING * (2 * z[neighbours[i]].sum() - len(neighbours[i]))
            z[i] = uniform < 1 / (1 + np.exp(-pull))
    return z


def _sha256(*paths):
    """One checksum of several files."""
    together = "".join(map(registry.file_sha256, paths))
    return hashlib.sha256(together.encode()).hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class Areas(registry.Shown):
    """n areas with counts, neighbours and, for a map, outlines.

    Parameters
    ----------
    counts : (n,) int64
    edges : (m, 2) int64, neighbours, each pair once
    sha256 : of the files, or of simulated counts
    outlines : for each area its rings (p, 2), of longitude and latitude where `in_degrees`, else of
        x and y; empty where there is no map
    """

    of_rows = ("counts",)
    noun = "areas"
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
