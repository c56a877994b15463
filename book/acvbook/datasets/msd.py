"""Year of a song from its timbre: 1,176 real records, and a simulator of all 463,715.

No full copy of YearPredictionMSD could be had. The stand-in is a Gaussian copula: the year and the
first 12 features have the published quantiles of the full set (`columns.csv`). The correlation and
the other 78 features are those of the real rows where they are found. Where not, these have rough
quantiles: of medians of 12 variances, and of geometric means of two of them. Either way, what is
computed from it is labelled simulated.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import ndtri

from acvlib.treecv import Examples

from . import registry
from .columns import LEVELS, Column, columns, correlated, response

_log = logging.getLogger(__name__)

ROWS_FILE = "YearPredictionMSD_first1176.csv.gz"
N_ROWS, N_FEATURES = 463_715, 90
FIRST_YEAR, LAST_YEAR = 1922, 2011
SHRINKAGE = 0.05  # of the correlation of 91 columns, of 1,176 rows, towards independence


@dataclass(frozen=True, eq=False, repr=False)
class Msd(registry.Rows):
    """n songs. X: (n, 90) float64, 12 timbre means and 78 covariances; year:
    (n,) float64, 1922 ... 2011.

    sha256: of the file of real rows; of the table's bytes if simulated.
    """

    of_rows = ("year", "X")
    noun = "songs"
    X: np.ndarray
    year: np.ndarray
    provenance: Literal["real, partial", "simulated"]
    sha256: str
    name: ClassVar[str] = "msd"

    def target(self) -> np.ndarray:
        """The year, scaled to [0, 1]."""
        return (self.year - FIRST_YEAR) / (LAST_YEAR - FIRST_YEAR)

    def regression(self, scaling: Literal["unit_variance", "centred", "unit_rows"]) -> Examples:
        """The target on the features: of unit variance, the same and centred,
        or each row of unit length.
        """
        if scaling == "unit_rows":
            return Examples(self.X / np.linalg.norm(self.X, axis=1, keepdims=True), self.target())
        if scaling not in ("unit_variance", "centred"):
            raise ValueError(f"scaling = {scaling!r}: must be unit_variance, centred or unit_rows")
        shift = self.X.mean(axis=0) if scaling == "centred" else 0.0
        return Examples((self.X - shift) / self.X.std(axis=0), self.target())


def load_msd() -> Msd:
    """The first 1,176 records of UCI's file; neighbours often share artist and album.

    Raises DataNotFound or DataCorrupt. Source: UCI Machine Learning Repository, YearPredictionMSD.
    """
    import pandas as pd

    path = registry.find("msd", ROWS_FILE)
    table = pd.read_csv(path, header=None).to_numpy(float)
    X, year = np.ascontiguousarray(table[:, 1:]), table[:, 0].copy()
    return Msd(X, year, "real, partial", registry.file_sha256(path))


def simulate_msd(rng: np.random.Generator, n_rows: int = N_ROWS) -> Msd:
    """n songs from the copula; one log line says so where its correlation is not the real rows'."""
    try:
        real = load_msd()
    except registry.DataNotFound:
        _log.warning("msd: SIMULATED songs without the real rows' correlation, as there are none")
        features = correlated(rng, n_rows, N_FEATURES)
        z = np.column_stack([response(rng, features), features])
        covariances = columns("msd_rough").values()
    else:
        table = np.column_stack([real.year, real.X])
        z = rng.standard_normal((n_rows, N_FEATURES + 1)) @ _cholesky(table).T
        covariances = [
            Column(0.0, 1e-5, quantiles)
            for quantiles in np.quantile(table[:, 13:], LEVELS, axis=0).T
        ]
    laws = [*columns("msd").values(), *covariances]
    year, *X = [law.values(scores) for law, scores in zip(laws, z.T, strict=True)]
    X = np.column_stack(X)
    return Msd(X, year, "simulated", registry.checksum(X, year))


def _cholesky(table):
    """Of the shrunken correlation of normal scores of the columns."""
    from scipy.stats import rankdata

    z = ndtri((rankdata(table, axis=0) - 0.5) / len(table))
    return np.linalg.cholesky((1 - SHRINKAGE) * np.corrcoef(z.T) + SHRINKAGE * np.eye(z.shape[1]))
