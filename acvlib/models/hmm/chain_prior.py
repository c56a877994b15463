"""The prior of the chain: Dirichlet on rows of probabilities, of which some entries may be fixed.

A fixed entry p_j has a penalty STIFF / 2 (log p_j - its log)^2, under which it does not move, in
place of its share in log p(rows); 0, a move that cannot happen, is TINY.
"""

from dataclasses import dataclass
from functools import cached_property

import autograd.numpy as anp
import numpy as np

from ...checks import real_array

TINY = 1e-130  # its products with densities do not underflow
STIFF = 1e6  # a fixed entry moves by a share of its unexpected moves over STIFF
VANISHING = 1e-3  # expected moves below which a flat prior lets a probability run to 0


@dataclass(frozen=True)
class ChainPrior:
    """Of rows (K + 1, K), initial then transitions; `fixed` like them, nan where free, or None."""

    concentration: float
    fixed: np.ndarray

    @classmethod
    def of(cls, concentration, fixed, n_states):
        """The prior of settings as users give them; ValueError for entries that are no shares."""
        shape = (n_states + 1, n_states)
        entries = np.full(shape, np.nan)
        if fixed is not None:
            entries = real_array("fixed", fixed, 2, finite=False)
        if entries.shape != shape:
            raise ValueError(f"fixed {entries.shape}: must be {shape}, nan where free")
        total = np.nansum(entries, axis=1)
        over = np.where(np.isnan(entries).any(axis=1), total - 1.0, abs(total - 1.0))
        wrong = (entries < 0.0).any(axis=1) | (over > 1e-6)
        if wrong.any():
            row = np.flatnonzero(wrong)[0]
            raise ValueError(f"fixed row {row}, {entries[row]}: probabilities, nan where free")
        return cls(concentration, entries)

    @cached_property
    def _free(self):
        return np.isnan(self.fixed)

    @cached_property
    def _log_fixed(self):
        return np.log(np.maximum(np.nan_to_num(self.fixed), TINY))

    def log_density(self, log_rows):
        """log p(rows) up to a constant; differentiable."""
        gap = (log_rows - self._log_fixed) * ~self._free
        of_free = (self.concentration - 1.0) * anp.sum(log_rows * self._free)
        return of_free - 0.5 * STIFF * anp.sum(gap**2)

    def counts(self, log_rows):
        """The derivatives of `log_density` by log_rows."""
        pull = STIFF * (self._log_fixed - log_rows)
        return np.where(self._free, self.concentration - 1.0, pull)

    def information(self, p):
        """STIFF sum_j (e_j - p) (e_j - p)' over fixed entries of rows p, (K + 1, K - 1, K - 1)."""
        gaps = (np.eye(p.shape[1]) - p[:, None]) * ~self._free[:, :, None]
        return STIFF * np.einsum("rji,rjk->rik", gaps[:, :, :-1], gaps[:, :, :-1])

    def rows(self, counts):
        """Rows above 0 with the highest density: counts, prior's included, but for what is fixed."""
        if self._free.all():
            return np.maximum(counts, TINY)
        free = np.maximum(counts, TINY) * self._free
        left = 1.0 - np.nansum(self.fixed, axis=1, keepdims=True)
        share = left / np.maximum(free.sum(axis=1, keepdims=True), TINY)
        return np.maximum(np.where(self._free, share * free, self.fixed), TINY)

    def vanishing(self, counts, p):
        """[row, column] of free entries of p that a flat prior lets run to 0."""
        rare = counts.sum(axis=1, keepdims=True) * p < VANISHING
        return np.argwhere(rare & self._free & (self.concentration == 1.0))
