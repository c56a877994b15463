"""Forest cover type: 397,050 real records of cartographic variables,
and a simulator of the same shape.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from acvlib.treecv import Examples

from . import registry

CANONICAL_FILE = "covtype_397050.csv.gz"
N_ROWS, N_NUMERIC, N_WILDERNESS, N_SOIL, N_COVERS = 397_050, 10, 4, 40, 7

# Rounded values of the real set's scale, for the simulator: mean and standard deviation of each
# numeric column.
_NUMERIC = np.array(
    [
        [2960, 280], [156, 112], [14, 7.5], [269, 212], [46, 58],
        [2350, 1560], [212, 27], [223, 20], [143, 38], [1980, 1325],
    ]
)  # fmt: skip
_COVER_SHARE = np.array([0.365, 0.487, 0.061, 0.005, 0.016, 0.030, 0.036])
_COVER_ELEVATION = np.array([3130, 2920, 2390, 2220, 2790, 2420, 3360])  # mean, metres
_WILDERNESS_SHARE = np.array([0.449, 0.052, 0.435, 0.064])
_COLUMNS = (
    *("elevation", "aspect", "slope", "hdist_hydrology", "vdist_hydrology", "hdist_roadways"),
    *("hillshade_9am", "hillshade_noon", "hillshade_3pm", "hdist_fire_points"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Covtype:
    """n records of 30 m × 30 m cells of forest.

    X: (n, 54) float64, UCI's columns: 10 numeric ones, then one-hot wilderness area (4) and soil
    type (40). cover: (n,) int64, cover type 1 ... 7. sha256: of the canonical file, also after
    `take`; of the simulated table's bytes otherwise. Raises ValueError on other shapes or cover
    types.
    """

    X: np.ndarray
    cover: np.ndarray
    provenance: Literal["real, partial", "simulated"]
    sha256: str
    name: ClassVar[str] = "covtype"

    def __post_init__(self):
        if self.X.shape != (len(self.cover), 54):
            raise ValueError(f"X has shape {self.X.shape}, not ({len(self.cover)}, 54)")
        if not 1 <= self.cover.min(initial=1) <= self.cover.max(initial=1) <= N_COVERS:
            found = f"{self.cover.min()} ... {self.cover.max()}"
            raise ValueError(f"cover types {found} are not within 1 ... {N_COVERS}")

    def take(self, rows) -> Covtype:
        """These rows, in this order."""
        return replace(self, X=self.X[rows], cover=self.cover[rows])

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

    def __len__(self) -> int:
        return len(self.cover)

    def __repr__(self) -> str:
        return f"Covtype({len(self):,} records, 54 features, {self.provenance})"


def load_covtype() -> Covtype:
    """The 397,050 real records, distinct and in random order: any prefix is a random subset.

    Raises DataNotFound or DataCorrupt. Source: UCI Machine Learning Repository, Covertype; Blackard
    and Dean (1999). The paper's experiments use all 581,012.
    """
    path = registry.find("covtype", CANONICAL_FILE)
    return _read_canonical(path)


def simulate_covtype(rng: np.random.Generator, n_rows: int = N_ROWS) -> Covtype:
    """A stand-in of the real set's shape and scale, in which elevation tells the covers apart.

    Numeric columns are normal with the real means and deviations, but for elevation, whose mean is
    that of the cover; wilderness and soil are drawn by area and elevation band, so that they carry
    signal too.
    """
    cover = 1 + rng.choice(N_COVERS, n_rows, p=_COVER_SHARE / _COVER_SHARE.sum())
    numeric = rng.normal(_NUMERIC[:, 0], _NUMERIC[:, 1], (n_rows, N_NUMERIC)).round()
    numeric[:, 0] = rng.normal(_COVER_ELEVATION[cover - 1], 170).round()
    wilderness = 1 + rng.choice(N_WILDERNESS, n_rows, p=_WILDERNESS_SHARE)
    band = (numeric[:, 0] - 1850) / 2000 * N_SOIL
    soil = np.clip(np.floor(rng.normal(band, 6)), 0, N_SOIL - 1).astype(np.int64) + 1
    X = _features(numeric, wilderness, soil)
    return Covtype(X, cover, "simulated", hashlib.sha256(X.tobytes() + cover.tobytes()).hexdigest())


def _features(numeric, wilderness, soil):
    """UCI's 54 columns from 10 numeric ones and two codes that start at 1."""
    X = np.zeros((len(numeric), N_NUMERIC + N_WILDERNESS + N_SOIL))
    X[:, :N_NUMERIC] = numeric
    rows = np.arange(len(X))
    X[rows, N_NUMERIC - 1 + wilderness] = 1.0
    X[rows, N_NUMERIC + N_WILDERNESS - 1 + soil] = 1.0
    return X


def _read_canonical(path: Path) -> Covtype:
    import pandas as pd

    table = pd.read_csv(path)
    X = _features(
        table[[*_COLUMNS]].to_numpy(float), table["wilderness"].to_numpy(), table["soil"].to_numpy()
    )
    return Covtype(
        X, table["cover"].to_numpy(np.int64), "real, partial", registry.file_sha256(path)
    )
