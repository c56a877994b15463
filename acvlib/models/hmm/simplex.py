"""Rows of K probabilities, as log ratios to their last entry, and their Dirichlet priors.

Some entries may be fixed. A fixed p_j has a penalty STIFF / 2 (log p_j - its log)^2, under which it
hardly moves, in place of its share in log p(rows); 0, for what cannot happen, is TINY.
"""

from dataclasses import dataclass
from typing import Any

import autograd.numpy as anp
import numpy as np

from ...checks import one_line, real_array
from ...trials import NoFiniteOptimum

TINY = 1e-130  # its products with densities do not underflow
STIFF = 1e6  # an entry moves by the share that its unexpected counts are of this
VANISHING = 1e-3  # expected counts below which a flat prior lets a probability run to 0


def log_probabilities(log_ratios: Any) -> Any:
    """Log probabilities (n, K) from (n, K - 1), finite however unlikely; differentiable."""
    zeros = np.zeros((len(log_ratios), 1))
    full = anp.concatenate([log_ratios, zeros], axis=1)
    shifted = full - anp.max(full, axis=1, keepdims=True)
    return shifted - anp.log(anp.sum(anp.exp(shifted), axis=1, keepdims=True))


def log_ratios(weights: np.ndarray) -> np.ndarray:
    """Log ratios (n, K - 1) of rows of positive weights (n, K)."""
    logs = np.log(weights)
    return logs[:, :-1] - logs[:, -1:]


def score(counts: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Gradient (..., n, K - 1) of sum_k counts_k log p_k in the log ratios."""
    total = counts.sum(axis=-1, keepdims=True)
    return (counts - total * p)[..., :-1]


def information(total: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Minus the Hessians (n, K - 1, K - 1) of sum_k counts_k log p_k, by row sums of counts."""
    q = p[:, :-1]
    return total[:, None, None] * q[:, :, None] * (np.eye(q.shape[1]) - q[:, None, :])


@dataclass(frozen=True)
class Dirichlet:
    """Rows (n, K) ~ Dirichlet(concentration); parameters are log ratios to the last entry.

    concentration: one number, or one for each row (n, 1) or entry (n, K).
    fixed: None, or (n, K) entries that stay, nan where free.
    """

    __repr__ = one_line
    concentration: Any
    fixed: Any = None

    @classmethod
    def fixing(cls, fixed: Any, shape: tuple[int, int], concentration: Any) -> "Dirichlet":
        """The prior, with `fixed` checked: ValueError for entries that are no probabilities."""
        if fixed is None:
            return cls(concentration)
        entries = real_array("fixed", fixed, 2, finite=False)
        if entries.shape != shape:
            raise ValueError(f"fixed {entries.shape}: must be {shape}, nan where free")
        total = np.nansum(entries, axis=1)
        beyond = np.where(np.isnan(entries).any(axis=1), total - 1.0, abs(total - 1.0))
        wrong = (entries < 0.0).any(axis=1) | (beyond > 1e-6)
        if wrong.any():
            row = np.argmax(wrong)
            raise ValueError(f"fixed row {row}, {entries[row]}: probabilities, nan where free")
        entries.setflags(write=False)
        return cls(concentration, entries)

    @property
    def _free(self):
        return True if self.fixed is None else np.isnan(self.fixed)

    @property
    def _log_fixed(self):
        return 0.0 if self.fixed is None else np.log(np.fmax(self.fixed, TINY))

    def log_density(self, log_rows: Any) -> Any:
        """log p(rows) up to a constant; differentiable."""
        free = anp.sum((self.concentration - 1.0) * log_rows * self._free)
        gap = (log_rows - self._log_fixed) * np.logical_not(self._free)
        return free - 0.5 * STIFF * anp.sum(gap**2)

    def counts(self, log_rows: np.ndarray) -> np.ndarray:
        """The derivatives of `log_density` by log_rows, which count as observations of rows."""
        pull = STIFF * (self._log_fixed - log_rows)
        return np.where(self._free, self.concentration - 1.0, pull)

    def stiffness(self, p: np.ndarray) -> Any:
        """STIFF sum_j (e_j - p) (e_j - p)' over fixed entries of rows p, (n, K - 1, K - 1)."""
        if self.fixed is None:
            return 0.0
        gaps = (np.eye(p.shape[1]) - p[:, None]) * ~self._free[:, :, None]
        return STIFF * np.einsum("rji,rjk->rik", gaps[:, :, :-1], gaps[:, :, :-1])

    def rows(self, counts: np.ndarray) -> np.ndarray:
        """Rows above 0 in proportion to counts, the prior's included, but for what is fixed."""
        counts = np.maximum(counts, TINY)
        if self.fixed is None:
            return counts
        free = counts * self._free
        left = 1.0 - np.nansum(self.fixed, axis=1, keepdims=True)
        share = left / np.maximum(free.sum(axis=1, keepdims=True), TINY)
        return np.maximum(np.where(self._free, share * free, self.fixed), TINY)

    def check_optimum(self, totals: np.ndarray, p: np.ndarray) -> None:
        """Raise `NoFiniteOptimum` where a free entry of p runs to 0, given expected row counts."""
        rare = (totals[:, None] * p < VANISHING) & self._free & (self.concentration == 1.0)
        if rare.any():
            row, column = np.argwhere(rare)[0]
            raise NoFiniteOptimum(
                f"{rare.sum()} of the probabilities {p.shape} run to 0 under a flat prior, the "
                f"first [{row}, {column}]: give them in `fixed`, or a concentration above 1"
            )

    # as a law of log ratios

    def minus_log(self, x: Any) -> Any:
        """Minus the log density of log ratios (n, K - 1), up to a constant; differentiable."""
        return -self.log_density(log_probabilities(x))

    def derivatives(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, K - 1) and Hessian (n, K - 1, K - 1) of it."""
        log_p = log_probabilities(x)
        p = np.exp(log_p)
        counts = self.counts(log_p)
        hessian = information(counts.sum(axis=1), p) + self.stiffness(p)
        return -score(counts, p), hessian
