"""What regressions share: linear predictors, what they are given, and where they run to infinity.

    scores_n = Q (b + B x_n) + offset_n
    F(theta, w) = sum_n w_n s_n b_{c(n)}(w) loss(scores_n, y_n) + theta' diag(ridge(w)) theta / 2
    ridge(w) = prior + pull sum_n w_n s_n

theta = [b, B] has a row for each of q linear predictors; b(w) are the weights of `balance`.
"""

from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np
from scipy.sparse import issparse

from ...checks import real_array, real_number
from ...folds import Folds
from ...folds import weights as fold_weights
from ...model import ModelDefaults, checked, own_copy
from ...parallel import pieces
from ...trials import NoFiniteOptimum
from .balance import Balance
from .derivatives import RegressionDerivatives
from .separation import Columns, separating_direction
from .sums import by_rows, span

EXTREME = 15.0  # how far apart scores are up to which nothing is separated: no loss below 3e-7
LARGE = 16  # sites a fold from which on a product a fold is faster than one a site
AT_ONCE = 2**20  # coefficients that a thread has in memory


class Regression(ModelDefaults):
    """Members of `GLM` and `VectorGLM`, which set those named here."""

    convex = True  # every loss is convex in the scores
    X: np.ndarray
    y: np.ndarray
    intercept: bool
    sample_weight: Any  # (n,)
    offset: Any  # (n,)
    design: np.ndarray
    balance: Balance
    likelihood: Any
    prior: np.ndarray  # (D,) the diagonal of the penalty's curvature that no weight changes
    pull: np.ndarray  # (D,) that which comes with each unit of weight
    is_penalised: bool  # whether every coefficient is
    _columns: Columns

    def _set(self, **values):
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_columns(self):
        if not self.is_penalised:
            self._set(_columns=Columns(self.design[self.observed]))

    @property
    def n_sites(self) -> int:
        """How many rows X has."""
        return len(self.y)

    @property
    def n_outputs(self) -> int:
        """q."""
        return self.likelihood.spread.shape[1]

    @property
    def n_params(self) -> int:
        """D."""
        return self.n_outputs * self.design.shape[1]

    @property
    def quadratic(self) -> bool:
        """Whether the Hessian is the same everywhere."""
        return self.likelihood.quadratic

    @cached_property
    def observed(self) -> np.ndarray:
        """(n,) False where the sample weight is 0."""
        return self.sample_weight > 0

    @cached_property
    def full_weights(self) -> np.ndarray:
        """(n,) s_n b(1) of each site."""
        return self.sample_weight * self.balance.full

    @cached_property
    def penalised(self) -> np.ndarray:
        """(p + intercept,) 1 for a column of X, 0 for the intercept."""
        return np.repeat([0.0, 1.0], [int(self.intercept), self.X.shape[1]])

    @property
    def derivatives(self) -> RegressionDerivatives:
        """Closed forms; tested against autograd of `objective`."""
        return RegressionDerivatives(self)

    def ridge(self, total: Any) -> Any:
        """The diagonal (D,) of the penalty's curvature that goes with a total weight."""
        return self.prior + total * self.pull

    def coefficients(self, params: np.ndarray) -> np.ndarray:
        """Q theta of params (..., D), as (..., K, p + intercept)."""
        blocks = params.reshape(*params.shape[:-1], self.n_outputs, self.design.shape[1])
        return blocks if self.likelihood.identity else self.likelihood.spread @ blocks

    def scores(self, params: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Scores (..., K, len(x)) of rows x at params (..., D), without offsets."""
        return np.tensordot(self.coefficients(params), x, axes=(-1, 1))

    def own_scores(self, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Scores (K, n) of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
        if len(sites) > LARGE * len(sizes):
            parts = np.split(sites, np.cumsum(sizes)[:-1])
            pairs = zip(params, parts, strict=True)
            scores = np.hstack([self.scores(point, self.design[part]) for point, part in pairs])
        else:
            fold = np.repeat(np.arange(len(sizes)), sizes)

            def of_rows(rows):
                theta = self.coefficients(params[span(fold[rows])])
                return np.einsum("nkd,nd->nk", theta, self.design[span(sites[rows])])

            scores = by_rows(of_rows, len(sites), max(16, AT_ONCE // max(self.n_params, 1))).T
        return scores + self.offset[sites]

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights), weights >= 0."""
        theta = anp.reshape(params, (self.n_outputs, self.design.shape[1]))
        predictors = anp.dot(theta, self.design.T)
        scores = anp.dot(self.likelihood.spread, predictors) + self.offset
        relative = self.balance.relative(weights) * self.full_weights
        losses = anp.sum(relative * self.likelihood.loss(scores, self.y))
        ridge = self.ridge(anp.dot(weights, self.sample_weight))
        return losses + 0.5 * anp.sum(ridge * params**2)

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(y_n | x_n; params) for each n of the fold, without weights of any kind."""
        scores = self.scores(params, self.design[fold]) + self.offset[fold]
        return self.likelihood.loss(scores, self.y[fold])

    def _scores_of(self, params, X):
        """Scores (K, n) of new rows X (n, p)."""
        X = real_array("X", X, 2)
        if X.shape[1] != self.X.shape[1]:
            raise ValueError(f"X {X.shape} must have {self.X.shape[1]} columns, as the model's X")
        return self.scores(params, with_intercept(X, self.intercept))

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros, and the intercepts that fit the means; F is convex, so `rng` is not used."""
        start = np.zeros((self.n_outputs, self.design.shape[1]))
        if self.intercept:
            start[:, 0] = self.likelihood.start(self.y, self.full_weights)
        return start.ravel()

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise NoFiniteOptimum where params (D,) run to infinity: separable data, no penalty."""
        if not (self.is_penalised or self.quadratic):
            self._check_finite(params, self.observed, "")

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """Raise NoFiniteOptimum for the first fold whose params (n_folds, D) run to infinity."""
        if self.is_penalised or self.quadratic:
            return
        for part in pieces(len(folds), 64):
            scores = self.scores(params[part], self.design)
            furthest = self.likelihood.apart(scores).max(axis=-1)
            for number in part.start + np.flatnonzero(furthest > EXTREME):
                kept = self.observed & (fold_weights(self.n_sites, folds[number]) > 0.0)
                self._check_finite(params[number], kept, f"without fold {number} ")

    def _check_finite(self, params, sites, where):
        design = self.design[sites]
        furthest = self.likelihood.apart(self.scores(params, design)).max()
        if furthest <= EXTREME:
            return
        rows, free = self.likelihood.gains(design, self.y[sites])
        if separating_direction(rows, free) is not None:
            separated = self.likelihood.separated.format(furthest)
            raise NoFiniteOptimum(
                f"{where}the {self.likelihood.name} likelihood has no finite maximum: {separated}. "
                "Pass penalty > 0"
            )


def with_intercept(X: Any, intercept: Any) -> np.ndarray:
    """Read-only [1, X] or X (n, p). Raises as `GLM` does."""
    if issparse(X):
        raise TypeError("X is sparse: GLM forms dense Hessians; pass X.toarray()")
    X = real_array("X", X, 2)
    head = real_number("intercept", intercept)
    if head not in (0.0, 1.0):
        raise ValueError(f"intercept = {head:g}: must be True or False")
    design = np.column_stack([np.ones((len(X), int(head))), X])
    design.setflags(write=False)
    return design


def column(name: str, values: Any, n_rows: int) -> np.ndarray:
    """A read-only copy of one number, or of one for each row, as (n_rows,)."""
    given = real_array(name, values)
    if given.shape not in ((), (n_rows,)):
        raise ValueError(f"{name} {given.shape} must be one number, or ({n_rows},): one a row")
    return own_copy(np.broadcast_to(given, n_rows), name=name)
