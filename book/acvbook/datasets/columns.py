"""Columns of simulated tables: numbers and codes with the support and the shares of the real ones.

`columns.csv` has, for each column of numbers, the share of zeros, the step of which values
are multiples, quantiles of those that are not zero, and how many distinct values there are.
"""

from __future__ import annotations

import csv
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

LEVELS = np.array([0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0])
N_FACTORS = 3


class Column(NamedTuple):
    """Numbers, a share of them zero; the others have these quantiles, at LEVELS.

    All are multiples of step; distinct: how many different ones there are, 0 where not known.
    """

    zeros: float
    step: float
    quantiles: np.ndarray
    distinct: int = 0

    def values(self, z: np.ndarray) -> np.ndarray:
        """The values (n,) at standard normal scores z (n,): zeros first, if any.

        Between quantiles the inverse hyperbolic sine of a value is linear in its score: the middle
        is interpolated as it is, and long tails by their logarithms.
        """
        edge = 0.5 / len(z)
        share = ndtr(z)
        rest = np.clip((share - self.zeros) / (1.0 - self.zeros), edge, 1.0 - edge)
        scores = ndtri(np.clip(LEVELS, edge, 1.0 - edge))
        middle, width = self.quantiles[3], np.ptp(self.quantiles[2:5]) or 1.0
        bent = np.arcsinh((self.quantiles - middle) / width)
        values = middle + width * np.sinh(np.interp(ndtri(rest), scores, bent))
        values = (np.round(values / self.step) * self.step).round(10) + 0.0  # no -0.0
        within = np.clip(values, self.quantiles[0], self.quantiles[-1])
        return np.where(share < self.zeros, 0.0, within)


@cache
def columns(table: str) -> dict[str, Column]:
    """The columns of numbers of a table, by name and in order."""
    with Path(__file__).with_name("columns.csv").open(encoding="ascii", newline="") as lines:
        rows = [row for row in csv.reader(lines) if row[0] == table]
    return {
        name: Column(float(zeros), float(step), np.array(quantiles, float), int(distinct or 0))
        for _, name, zeros, step, *quantiles, distinct in rows
    }


@cache
def counts(table: str) -> dict[str, list]:
    """How many rows of a set have each code, by the name of what is coded: `counts.toml`."""
    return tomllib.loads(Path(__file__).with_name("counts.toml").read_text("utf-8"))[table]


def correlated(
    rng: np.random.Generator, n_rows: int, n_columns: int, common: float = 0.0
) -> np.ndarray:
    """Standard normal columns (n_rows, n_columns), half of whose variance is that of three factors.

    common: the share of the variance that is one and the same number in all columns of a row.
    """
    loadings = rng.standard_normal((N_FACTORS, n_columns))
    loadings /= np.linalg.norm(loadings, axis=0)
    factors = rng.standard_normal((n_rows, N_FACTORS)) @ loadings
    z = (factors + rng.standard_normal((n_rows, n_columns))) / np.sqrt(2.0)
    return np.sqrt(common) * rng.standard_normal((n_rows, 1)) + np.sqrt(1.0 - common) * z


def response(rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    """Scores (n,) of mean 0 and variance 1, linear in the columns z (n, d) but for a fifth."""
    linear = z @ rng.standard_normal(z.shape[1])
    score = linear / linear.std() + 0.5 * rng.standard_normal(len(z))
    return (score - score.mean()) / score.std()


def codes(z: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Codes 0 ... K - 1 (n,) of these shares (K,), in the order of z (n,); K is what is left."""
    return np.searchsorted(np.cumsum(shares), ndtr(z), side="right")


def one_hot(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """A column of ones and zeros for each code (n, n_codes); rows of zeros for other codes."""
    return (codes[:, None] == np.arange(n_codes)).astype(float)
