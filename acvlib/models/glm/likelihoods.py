"""Losses of q linear predictors eta (..., q, n), and how their curvature couples them.

Curvature is (n, k, k): k = 1 where predictors are alike and nothing couples them, else k = q.
"""

from typing import Any

import autograd.numpy as anp
import numpy as np
from scipy.linalg import helmert

from ...folds import Folds
from ...folds.folds import emptied
from ...trials import NoFiniteOptimum
from .families import FAMILIES, Family
from .separation import check_classes


class Elementwise:
    """A family's loss of one linear predictor, or the sum over q targets, y (q, n).

    These have one curvature, and so one Hessian: theirs is a Gaussian one.
    """

    coupled = 1  # predictors that the curvature couples
    separated = (
        "a linear combination of the columns separates the responses (fitted |eta| up to {:.3g})"
    )

    def __init__(self, family: Family, n_outputs: int = 1):
        self.family = family
        self.n_outputs = n_outputs
        self.spread = np.eye(n_outputs)
        self.name = family.name
        self.quadratic = family is FAMILIES["gaussian"]
        self.self_concordant = family.self_concordant

    def loss(self, eta: Any, y: np.ndarray) -> Any:
        """-log p(y | eta), (..., n)."""
        losses = self.family.loss(eta, y)
        return losses[..., 0, :] if self.n_outputs == 1 else anp.sum(losses, axis=-2)

    def slope(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """d loss / d eta."""
        return self.family.slope(eta, y)

    def curvature(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(n, 1, 1)."""
        return self.family.curvature(eta[0], y[0])[:, None, None]

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """E[y | eta], (n,), or (n, q) of targets."""
        mean = self.family.mean(eta)
        return mean[0] if self.n_outputs == 1 else mean.T

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The intercepts (q,) that fit the means."""
        return self.family.link(np.average(y, axis=1, weights=weights))

    def apart(self, eta: np.ndarray) -> np.ndarray:
        """|eta|, (..., n)."""
        return abs(eta[..., 0, :])

    def gains(self, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows (n, D), which way each lowers its loss for ever), for `separating_direction`."""
        return design, self.family.free_direction(y[0])

    def check_folds(self, y: np.ndarray, observed: np.ndarray, folds: Folds) -> None:
        """Raise NoFiniteOptimum for a fold that leaves one class alone."""
        if self.n_outputs == 1:
            check_classes(self.family.free_direction(y[0]), observed, folds)

    def spreads(self, leverage: np.ndarray) -> np.ndarray:
        """How far eta moves, at most, by a standard error, (n,), of leverages (n, 1, 1)."""
        return np.sqrt(leverage[:, 0, 0])


class Multinomial:
    """loss = log sum_k exp(scores_k) - scores_y, scores (K,) = Q eta, y in 0, ..., K - 1.

    Adding a number to all scores changes nothing, and penalised coefficients sum to 0: Q (K, K - 1)
    is an orthonormal basis of what is left.
    """

    name = "multinomial"
    quadratic = False
    self_concordant = True
    separated = (
        "linear combinations of the columns separate some classes (fitted scores up to {:.3g} "
        "apart)"
    )

    def __init__(self, n_classes: int):
        self.spread = np.ascontiguousarray(helmert(n_classes).T)
        self.n_outputs = self.coupled = n_classes - 1
        self._products = np.einsum("ki,kj->kij", self.spread, self.spread)

    def scores(self, eta: Any) -> Any:
        """Q eta, (..., K, n)."""
        return anp.matmul(self.spread, eta)

    def loss(self, eta: Any, y: np.ndarray) -> Any:
        """-log p(y | eta), (..., n)."""
        scores = self.scores(eta)
        highest = anp.max(scores, axis=-2)
        total = anp.sum(anp.exp(scores - highest[..., None, :]), axis=-2)
        return highest + anp.log(total) - scores[..., y, np.arange(len(y))]

    def slope(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """d loss / d eta."""
        shares = self._shares(eta)
        shares[..., y, np.arange(len(y))] -= 1.0
        return np.matmul(self.spread.T, shares)

    def curvature(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Q' (diag p - p p') Q, (n, q, q)."""
        shares = self._shares(eta).T
        along = shares @ self.spread
        squares = np.tensordot(shares, self._products, axes=1)
        return squares - along[:, :, None] * along[:, None, :]

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """p(k | eta), (n, K)."""
        return self._shares(eta).T

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The intercepts (q,) that fit the shares of the classes."""
        return self.spread.T @ np.log(np.bincount(y, weights, len(self.spread)))

    def apart(self, eta: np.ndarray) -> np.ndarray:
        """The largest difference of two scores, (..., n)."""
        return np.ptp(self.scores(eta), axis=-2)

    def gains(self, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(how much a direction raises the score of each y over every other one (., D), ones)."""
        over = self.spread[y, None] - self.spread  # (n, K, q)
        others = np.arange(len(self.spread)) != y[:, None]
        x = np.repeat(design, self.n_outputs, axis=0)
        rows = (over[others][:, :, None] * x[:, None, :]).reshape(len(x), -1)
        return rows, np.ones(len(rows), int)

    def check_folds(self, y: np.ndarray, observed: np.ndarray, folds: Folds) -> None:
        """Raise NoFiniteOptimum for a fold that leaves no site of a class."""
        is_class = y[:, None] == np.arange(len(self.spread))
        if gone := emptied(folds, is_class & observed[:, None]):
            where = f"fold {gone[0]} leaves no site of class {gone[1]}"
            raise NoFiniteOptimum(f"{where}: use fewer sites a fold, or stratified folds")

    def spreads(self, leverage: np.ndarray) -> np.ndarray:
        """How far two scores of a site move apart, at most, by a standard error, (n,)."""
        scores = np.einsum("ki,nij->nkj", self.spread, leverage) @ self.spread.T
        squares = np.einsum("nkk->nk", scores)
        squares = squares[:, :, None] + squares[:, None, :] - 2.0 * scores
        return np.sqrt(squares.max(axis=(1, 2)))

    def _shares(self, eta):
        """p (..., K, n)."""
        scores = self.scores(eta)
        shares = scores - scores.max(axis=-2, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=-2, keepdims=True)
        return shares


def likelihood_of(
    family: Family | str, y: np.ndarray, weights: np.ndarray, intercept: bool
) -> tuple[np.ndarray, np.ndarray, Any]:
    """(y, as the likelihood takes them: (q, n), or classes (n,), the likelihood).

    Raises ValueError for y that the family does not take, NoFiniteOptimum for those of one class.
    """
    if isinstance(family, str):
        y = _checked_classes(y, weights)
        return y, y, Multinomial(y.max() + 1)
    bad = y[~family.accepts(y)]
    if bad.size:
        rule = f"y of the {family.name} family must be {family.response}"
        raise ValueError(f"{rule}; found {bad[:3]}")
    seen = y[weights > 0.0]
    if intercept and y.ndim == 1 and abs(family.free_direction(seen).sum()) == len(seen):
        raise NoFiniteOptimum(f"every y is {seen[0]:g}: the intercept has no finite optimum")
    responses = y[None] if y.ndim == 1 else y.T
    return y, responses, Elementwise(family, len(responses))


def _checked_classes(y, weights):
    """y as integers. Raises ValueError unless each of 0, ..., K - 1 is observed, K > 1."""
    whole = np.isin(y, np.arange(len(y)))
    if not whole.all():
        raise ValueError(f"y must be classes 0, 1, ...; found {y[~whole][:3]}")
    classes = y.astype(int)
    counts = np.bincount(classes, weights)
    if len(counts) < 2 or not counts.all():
        missing = int(np.argmin(counts)) if len(counts) > 1 else 1
        raise NoFiniteOptimum(f"no observed site is of class {missing}: number those there are")
    classes.setflags(write=False)
    return classes
