"""What held-out losses say: of each site, of each fold, on average, and how sure that is."""

from functools import cached_property
from typing import Any

import numpy as np

from .checks import WIDEST, brief, shortened


class HeldOutLosses:
    """One convention for the held-out losses of every result.

    A loss belongs to a pair: a fold and a site that it scores. A subclass gives the numbers of
    sites and folds, the labels of these or None, and arrays (fold, site, loss) of all pairs.
    """

    method: Any
    n_sites: Any
    seconds: Any
    n_folds: Any
    labels: Any = None
    _pairs: Any
    _about = ""  # what else is shown

    def __repr__(self):
        loss = f"loss {self.loss:.6g} ± {self.se:.2g} (se over {self.se_over})"
        unreliable = np.flatnonzero(self._is_unreliable)
        names = unreliable if self.labels is None else self.labels[unreliable]
        named = f", {len(names):,} unreliable: {brief(names)}" if len(names) else ""
        folds = f"{self.n_folds} folds"
        folds = "" if folds == self.se_over else f", {folds}"
        line = f"{self.method}: {loss}{folds}{named}, {self.seconds:.3g} s{self._about}"
        return shortened(f"{type(self).__name__}({line})", WIDEST)

    @property
    def _is_unreliable(self):
        """Which folds (n_folds,) the method itself marks, such as those without a result."""
        return np.isnan(self.fold_totals)

    @cached_property
    def pointwise(self) -> np.ndarray:
        """Loss of each site, (n_sites,) in data order: the mean over the folds that score it.

        nan where no fold does.
        """
        _, site, loss = self._pairs
        return _means(site, loss, self.n_sites)

    @cached_property
    def fold_totals(self) -> np.ndarray:
        """Sum of the losses of the sites that each fold scores, (n_folds,)."""
        fold, _, loss = self._pairs
        return np.bincount(fold, loss, self.n_folds)

    @cached_property
    def fold_losses(self) -> np.ndarray:
        """Mean loss of the sites that each fold scores, (n_folds,); nan where it scores none."""
        fold, _, loss = self._pairs
        return _means(fold, loss, self.n_folds)

    @cached_property
    def loss(self) -> float:
        """Mean loss over all pairs of a fold and a site that it scores."""
        return float(self._pairs[2].mean())

    @cached_property
    def _overlap(self):
        """Whether some site is scored by more than one fold."""
        return np.bincount(self._pairs[1], minlength=1).max() > 1

    @cached_property
    def groups(self) -> np.ndarray:
        """What `se` takes together, (n_sites,): the number of a site's fold.

        Its own number where folds overlap; -1 where no fold scores it.
        """
        fold, site, _ = self._pairs
        groups = np.full(self.n_sites, -1)
        groups[site] = site if self._overlap else fold
        return groups

    @cached_property
    def se(self) -> float:
        """Standard error of `loss`; nan where there is one fold alone.

        Losses count as independent between folds, not within: the sites of a fold share its fit.
        Where folds overlap, losses count as independent between sites, and only those of one site
        are taken together; that sites of one fold share its fit is then NOT covered, so that the
        error is too small for large folds. That fits of different folds share data is covered by
        neither: k-fold cross-validation has no unbiased estimate of its variance.

        Source: one site a fold, Vehtari, Gelman and Gabry (2017), Eq. 23; several, the variance of
        a mean over clusters, Liang and Zeger (1986); the limits, Bengio and Grandvalet (2004).
        """
        _, site, loss = self._pairs
        return error_of_sum(loss, self.groups[site]) / len(loss)

    @cached_property
    def se_over(self) -> str:
        """What `se` counts as independent, in words."""
        if self._overlap:
            return "sites (folds overlap: too small)"
        one_each = len(self._pairs[0]) == self.n_folds
        return "sites" if one_each else f"{self.n_folds} folds"


def error_of_sum(values: np.ndarray, groups: np.ndarray) -> float:
    """Standard error of a sum of values (n,) that depend on each other within groups (n,).

    sqrt(G / (G - 1) sum_g (sum of g's deviations from the mean)^2), G the number of groups; nan for
    a single one.
    """
    labels, numbers = np.unique(groups, return_inverse=True)
    n = len(labels)
    if n < 2:
        return float("nan")
    deviations = np.bincount(numbers, values - values.mean())
    return float(np.sqrt(n / (n - 1) * (deviations @ deviations)))


def _means(group, values, n):
    counts = np.bincount(group, minlength=n)
    sums = np.bincount(group, values, n)
    return np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0)
