"""Rows of K probabilities, of which some are fixed, and their Dirichlet prior.

A row is given by log weights (K,): the free entries of p share what the fixed ones leave, in
proportion to their exp. The last free one is 0 and, like what is fixed, no parameter.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np

from ...checks import one_line, real_array
from ...trials import NoFiniteOptimum

TINY = 1e-130  # in place of a free probability of 0, which has no finite log weight
VANISHING = 1e-3  # expected counts below which a flat prior lets a probability run to 0
WHOLE = 1.0 - 1e-9  # what fixed entries sum to, if they leave nothing


def log_softmax(weights: Any) -> Any:
    """Log probabilities (..., K) of log weights; of -inf, -inf; real, complex or boxed."""
    top = anp.max(anp.real(weights), axis=-1, keepdims=True)
    shifted = weights - anp.where(top > -np.inf, top, 0.0)
    total = anp.sum(anp.exp(shifted), axis=-1, keepdims=True)
    return shifted - anp.log(anp.where(total == 0.0, 1.0, total))


@dataclass(frozen=True)
class Simplex:
    """n rows of K probabilities ~ Dirichlet(concentration); fixed: None, or (n, K), nan where free.

    concentration: one number, or one for each row (n, 1) or entry (n, K).
    """

    __repr__ = one_line
    shape: tuple[int, int]
    concentration: Any
    fixed: Any = None

    def __post_init__(self):
        concentration = real_array("concentration", self.concentration, finite=False)
        one_size = concentration.shape in ((), (self.shape[0], 1), self.shape)
        if not one_size or not ((concentration >= 1.0) & (concentration < np.inf)).all():
            shapes = f"one number, {(self.shape[0], 1)} or {self.shape}"
            found = f"concentration = {concentration.tolist()}"
            raise ValueError(f"{found}: must be >= 1 and finite: {shapes}")
        concentration.setflags(write=False)
        value = concentration if concentration.ndim else float(concentration)
        object.__setattr__(self, "concentration", value)
        if self.fixed is None:
            return
        entries = real_array("fixed", self.fixed, 2, finite=False)
        if entries.shape != self.shape:
            raise ValueError(f"fixed {entries.shape}: must be {self.shape}, nan where free")
        total = np.nansum(entries, axis=1)
        beyond = np.where(np.isnan(entries).any(axis=1), total - 1.0, abs(total - 1.0))
        wrong = (entries < 0.0).any(axis=1) | (beyond > 1e-6)
        if wrong.any():
            row = np.argmax(wrong)
            raise ValueError(f"fixed row {row}, {entries[row]}: probabilities, nan where free")
        entries[np.isnan(entries) & (total > WHOLE)[:, None]] = 0.0
        entries.setflags(write=False)
        object.__setattr__(self, "fixed", entries)

    @cached_property
    def free(self) -> np.ndarray:
        """(n, K) whether an entry is free."""
        return np.ones(self.shape, bool) if self.fixed is None else np.isnan(self.fixed)

    @cached_property
    def kept(self) -> np.ndarray:
        """(n, K) whether a log weight is a parameter: a row of m free entries has m - 1."""
        is_last = np.cumsum(self.free[:, ::-1], axis=1)[:, ::-1] == 1
        return self.free & ~is_last

    @cached_property
    def left(self) -> np.ndarray:
        """What fixed entries leave (n, 1); 1 where they leave nothing to share."""
        left = 1.0 if self.fixed is None else 1.0 - np.nansum(self.fixed, axis=1, keepdims=True)
        return np.where(self.free.any(axis=1, keepdims=True), left, 1.0)

    def log_p(self, weights: Any) -> Any:
        """Log probabilities (..., n, K) of log weights; differentiable."""
        if self.fixed is None:
            return log_softmax(weights)
        shared = log_softmax(anp.where(self.free, weights, -np.inf)) + np.log(self.left)
        with np.errstate(divide="ignore"):
            return anp.where(self.free, shared, np.log(self.fixed))

    def score(self, counts: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Gradient (..., n, K) of sum_k counts_k log p_k in the log weights."""
        counts = counts * self.free
        return counts - counts.sum(axis=-1, keepdims=True) * (p * self.free / self.left)

    def information(self, counts: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Minus the Hessians (n, K, K) of it."""
        q = p * self.free / self.left
        total = (counts * self.free).sum(axis=1)
        return total[:, None, None] * q[:, :, None] * (np.eye(q.shape[1]) - q[:, None, :])

    def moved_log_p(self, directions: np.ndarray, p: np.ndarray) -> np.ndarray:
        """How log p (n, K) moves along directions (B, n, K) of the log weights; 0 where fixed."""
        q = p * self.free / self.left
        return (directions - (directions * q).sum(axis=-1, keepdims=True)) * self.free

    @property
    def pseudo_counts(self) -> np.ndarray:
        """The prior as counts (n, K): its density is sum_k counts_k log p_k."""
        return (self.concentration - 1.0) * self.free

    def log_density(self, log_p: Any) -> Any:
        """The log density (...) of log probabilities (..., n, K), up to a constant."""
        finite = anp.where(self.free, log_p, 0.0)
        return anp.sum(self.pseudo_counts * finite, axis=(-2, -1))

    def rows(self, counts: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) in proportion to counts, but for what is fixed."""
        shares = np.maximum(counts, TINY) * self.free
        shares = self.left * shares / np.maximum(shares.sum(axis=1, keepdims=True), TINY)
        return shares if self.fixed is None else np.where(self.free, shares, self.fixed)

    def weights(self, p: np.ndarray, name: str = "probabilities") -> np.ndarray:
        """Log weights (n, K) of probabilities, 0 where fixed; ValueError for other fixed ones."""
        if p.shape != self.shape or not np.allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-6):
            raise ValueError(f"{name} {p.tolist()} must be {self.shape[1]} probabilities each")
        if self.fixed is not None and not np.allclose(p[~self.free], self.fixed[~self.free]):
            raise ValueError(f"{name} {p.tolist()} must be {self.fixed.tolist()} where fixed")
        with np.errstate(divide="ignore"):
            logs = np.where(self.free, np.log(np.where(self.free, p, 1.0)), 0.0)
        if not np.isfinite(logs).all():
            row, column = np.argwhere(~np.isfinite(logs))[0]
            raise ValueError(f"{name}[{row}, {column}] = {p[row, column]} is free: give it `fixed`")
        last = self.shape[1] - 1 - self.free[:, ::-1].argmax(axis=1)
        return np.where(self.free, logs - np.take_along_axis(logs, last[:, None], axis=1), 0.0)

    def check_optimum(self, counts: np.ndarray) -> None:
        """Raise `NoFiniteOptimum` where a free entry runs to 0, given expected counts (n, K)."""
        rare = (counts < VANISHING) & self.free & (self.concentration == 1.0)
        rare &= self.free.sum(axis=1, keepdims=True) > 1
        if rare.any():
            row, column = np.argwhere(rare)[0]
            raise NoFiniteOptimum(
                f"{rare.sum()} of the probabilities {self.shape} run to 0 under a flat prior, the "
                f"first [{row}, {column}]: give them in `fixed`, or a concentration above 1"
            )
