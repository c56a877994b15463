"""Forest cover type: 397,050 real records of cartographic variables, and their stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from acvlib.treecv import Examples

from . import registry
from .columns import codes, columns, correlated, counts, one_hot

CANONICAL_FILE = "covtype_397050.csv.gz"
N_ROWS, N_NUMERIC, N_WILDERNESS, N_SOIL = 397_050, 10, 4, 40

_COVERS_UPHILL = np.array([4, 3, 6, 5, 2, 1, 7])
_WILDERNESS_UPHILL = np.array([4, 3, 1, 2])


@dataclass(frozen=True, eq=False, repr=False)
class Covtype(registry.Rows):
    """n records of 30 m × 30 m cells of forest.

    X: (n, 54) float64, UCI's columns: 10 numeric ones, then one-hot wilderness area (4) and soil
    type (40). cover: (n,) int64, cover type 1 ... 7. sha256: of the canonical file, also after
    `take`; of the simulated table's bytes otherwise.
    """

    of_rows = ("cover", "X")
    noun = "records"
    X: np.ndarray
    cover: np.ndarray
    provenance: Literal["real, partial", "simulated"]
    sha256: str
    name: ClassVar[str] = "covtype"

    def spruce_fir(self, centred: bool = False, constant: bool = False) -> Examples:
        """Class 1 (y = 1) against the rest (y = -1); each feature scaled to unit variance, centred
        if asked, and with a last column of ones if asked.

        A soil type that occurs nowhere in these rows stays 0. Source:
        Joulani et al. (2015), Section 5.
        """
        deviation = self.X.std(axis=0)
        shift = self.X.mean(axis=0) if centred else 0.0
        scaled = (self.X - shift) / np.where(deviation > 0, deviation, 1.0)
        if constant:
            scaled = np.column_stack([scaled, np.ones(len(self))])
        return Examples(scaled, np.where(self.cover == 1, 1.0, -1.0))


def load_covtype() -> Covtype:
    """The 397,050 real records, distinct and in random order: any prefix is a random subset.

    Raises DataNotFound or DataCorrupt. Source: UCI Machine Learning Repository, Covertype; Blackard
    and Dean (1999). The paper's experiments use all 581,012.
    """
    import pandas as pd

    path = registry.find("covtype", CANONICAL_FILE)
    table = pd.read_csv(path)
    numeric = table[list(columns("covtype"))].to_numpy(float)
    X = _features(numeric, table["wilderness"].to_numpy(), table["soil"].to_numpy())
    cover = table["cover"].to_numpy(np.int64)
    return Covtype(X, cover, "real, partial", registry.file_sha256(path))


def simulate_covtype(rng: np.random.Generator, n_rows: int = N_ROWS) -> Covtype:
    """A stand-in with the real columns and codes, in which elevation tells the covers apart.

    Cover, wilderness and soil follow elevation, with a correlation of 0.8 each.
    """
    z = correlated(rng, n_rows, N_NUMERIC)
    numeric = [
        column.values(z_j) for column, z_j in zip(columns("covtype").values(), z.T, strict=True)
    ]
    height = 0.8 * z[:, :1] + 0.6 * rng.standard_normal((n_rows, 3))
    cover = _uphill(height[:, 0], "cover", _COVERS_UPHILL)
    wilderness = _uphill(height[:, 1], "wilderness", _WILDERNESS_UPHILL)
    soil = _uphill(height[:, 2], "soil", 1 + np.arange(N_SOIL))
    X = _features(np.column_stack(numeric), wilderness, soil)
    return Covtype(X, cover, "simulated", registry.checksum(X, cover))


def _uphill(height, name, order):
    """Codes (n,) that lie in this order one above the other, as often as in the real set."""
    return order[codes(height, np.array(counts("covtype")[name])[order - 1] / N_ROWS)]


def _features(numeric, wilderness, soil):
    """UCI's 54 columns from 10 numeric ones and two codes that start at 1."""
    one_hots = one_hot(wilderness - 1, N_WILDERNESS), one_hot(soil - 1, N_SOIL)
    return np.hstack([numeric, *one_hots])
