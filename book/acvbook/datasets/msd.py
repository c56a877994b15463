"""Year of a song from its timbre: 1,176 real records,
and a simulator of all 463,715 calibrated on them.

No full copy of YearPredictionMSD could be had. The stand-in is a Gaussian copula: normal scores
with the rank correlation of the real rows, mapped to quantiles of the full set where they are
published (the year and the first 12 features) and to those of the real rows otherwise. What is
computed from it is labelled simulated.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from acvlib.treecv import Examples

from . import registry

ROWS_FILE, SUMMARY_FILE = "YearPredictionMSD_first1176.csv.gz", "summary_full_first12.csv"
N_ROWS, N_FEATURES = 463_715, 90
FIRST_YEAR, LAST_YEAR = 1922, 2011
SHRINKAGE = (
    0.05  # of the correlation of 91 columns, estimated from 1,176 rows, towards independence
)

# Without the real rows: rounded deviations of the 12 timbre means, and of their covariances.
_MEAN_DEVIATION = np.array([6.1, 51.6, 35.3, 16.3, 22.9, 12.9, 14.6, 8.0, 10.6, 6.5, 4.4, 8.3])
_COVARIANCE_DEVIATION = 300.0


@dataclass(frozen=True, eq=False, repr=False)
class Msd:
    """n songs. X: (n, 90) float64, 12 timbre means and 78 covariances; year:
    (n,) float64, 1922 ... 2011.

    sha256: of the file of real rows; of the table's bytes if simulated. Raises ValueError on other
    shapes.
    """

    X: np.ndarray
    year: np.ndarray
    provenance: Literal["real, partial", "simulated"]
    sha256: str
    name: ClassVar[str] = "msd"

    def __post_init__(self):
        if self.X.shape != (len(self.year), N_FEATURES):
            raise ValueError(f"X has shape {self.X.shape}, not ({len(self.year)}, {N_FEATURES})")

    def take(self, rows) -> Msd:
        """These rows, in this order."""
        return replace(self, X=self.X[rows], year=self.year[rows])

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

    def __len__(self) -> int:
        return len(self.year)

    def __repr__(self) -> str:
        return f"Msd({len(self):,} songs, {N_FEATURES} features, {self.provenance})"


class Copula(NamedTuple):
    """Column j is the value at its normal score,
    interpolated between (scores[j], values[j]); year first.
    """

    factor: np.ndarray  # (91, 91), Cholesky factor of the correlation of the scores
    scores: list
    values: list


def load_msd() -> Msd:
    """The first 1,176 records of UCI's file; neighbours often share artist and album.

    Raises DataNotFound or DataCorrupt. Source: UCI Machine Learning Repository, YearPredictionMSD.
    """
    import pandas as pd

    path = registry.find("msd", ROWS_FILE)
    table = pd.read_csv(path, header=None).to_numpy(float)
    return Msd(
        np.ascontiguousarray(table[:, 1:]),
        table[:, 0].copy(),
        "real, partial",
        registry.file_sha256(path),
    )


def simulate_msd(rng: np.random.Generator, n_rows: int = N_ROWS) -> Msd:
    """n songs from the copula; calibrated on the real rows where they are found, roughly where
    not.
    """
    try:
        copula = calibrated()
    except registry.DataNotFound:
        copula = rough()
    z = rng.standard_normal((n_rows, N_FEATURES + 1)) @ copula.factor.T
    table = [np.interp(z[:, j], copula.scores[j], copula.values[j]) for j in range(N_FEATURES + 1)]
    year, X = table[0].round(), np.column_stack(table[1:])
    return Msd(X, year, "simulated", hashlib.sha256(X.tobytes() + year.tobytes()).hexdigest())


def calibrated() -> Copula:
    """The copula of the real rows, its first 13 columns with the quartiles and range of all 515,345
    records.
    """
    import pandas as pd
    from scipy.stats import norm, rankdata

    real = load_msd()
    table = np.column_stack([real.year, real.X])
    z = norm.ppf((rankdata(table, axis=0) - 0.5) / len(table))
    correlation = (1 - SHRINKAGE) * np.corrcoef(z.T) + SHRINKAGE * np.eye(z.shape[1])
    summary = pd.read_csv(registry.find("msd", SUMMARY_FILE), index_col=0)
    quartiles = summary.loc[["min", "25%", "50%", "75%", "max"]].to_numpy(float)
    at = norm.ppf([0.5 / N_ROWS, 0.25, 0.5, 0.75, 1 - 0.5 / N_ROWS])
    levels = np.linspace(0.5 / len(table), 1 - 0.5 / len(table), 101)
    known, others = list(quartiles.T), list(np.quantile(table[:, 13:], levels, axis=0).T)
    scores = [at] * len(known) + [norm.ppf(levels)] * len(others)
    return Copula(np.linalg.cholesky(correlation), scores, known + others)


def rough() -> Copula:
    """Independent columns of about the right scale, for where there is no file to calibrate on."""
    ends = np.array([-4.0, 4.0])
    deviation = np.concatenate([_MEAN_DEVIATION, np.full(N_FEATURES - 12, _COVARIANCE_DEVIATION)])
    centre = np.where(np.arange(N_FEATURES) == 0, 43.4, 0.0)  # loudness, the only column far from 0
    values = [np.array([1955.0, 2011.0]), *(centre[:, None] + deviation[:, None] * ends)]
    return Copula(np.eye(N_FEATURES + 1), [ends] * (N_FEATURES + 1), values)
