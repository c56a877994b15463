"""Regressions with several linear predictors: of classes, or of several targets.

    scores_n = Q (b + B x_n)
    F(theta, w) = sum_n w_n s_n b_{c(n)}(w) loss(scores_n, y_n) + sum_k penalty_k |B_k|^2 / 2

b are the weights of `balance`, 1 unless `balanced`: then F is not linear in w.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np

from ....checks import check_choice, real_array
from ....folds import Folds
from ....folds import weights as fold_weights
from ....parallel import pieces
from ....protocol import ModelDefaults, NoFiniteOptimum, checked, own_copy
from ..design import sample_weights, with_intercept
from ..separation import Columns, separating_direction
from ..sums import by_rows
from .balance import Balance
from .derivatives import VectorDerivatives
from .families import Gaussian, Multinomial

EXTREME = 15.0  # differences of scores up to which nothing is separated
AT_ONCE = 2**20  # coefficients that a thread has in memory
LARGEST = 2**14  # coordinates of a dense Hessian


@dataclass(frozen=True, eq=False)
class VectorGLM(ModelDefaults):
    """A MAP in D = q (p + intercept) coordinates (q, [b, B]), b unpenalised.

    Parameters
    ----------
    X: (n, p) covariates, copied.
    y: (n,) classes 0, ..., K - 1 for "multinomial", q = K - 1; (n, q) targets for "gaussian".
    family: "multinomial", or "gaussian" (unit variance of each target).
    penalty: the ridge of the sum of losses; one number, or one a target for "gaussian". That of
        "multinomial" is for the K rows of Q B, which sum to 0.
    sample_weight: s >= 0, (n,) or one number; a site of sample weight 0 is missing, in no fold.
    balanced: weigh each class by the inverse of its share of w s, anew for each w.

    Raises
    ------
    TypeError: X is sparse.
    ValueError: shapes, NaN, a class without a site, collinear columns without a penalty, balanced
        targets, or more coordinates than a dense Hessian of classes can have.
    """

    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    family: Any = "multinomial"
    penalty: Any = 0.0
    intercept: bool = True
    sample_weight: Any = field(default=1.0, repr=False)
    balanced: bool = False
    design: np.ndarray = field(init=False, repr=False)  # (n, D'): ones for an intercept, then X
    balance: Balance = field(init=False, repr=False)
    _columns: Columns = field(init=False, repr=False)  # where nothing is penalised
    convex = True

    def __post_init__(self):
        check_choice("family", self.family, ("multinomial", "gaussian"))
        design, head = with_intercept(self.X, self.intercept)
        classes = self.family == "multinomial"
        y = own_copy(real_array("y", self.y))
        if y.shape[:1] != design.shape[:1] or y.ndim != (1 if classes else 2):
            kind = "one class a row" if classes else "a row of targets for each"
            raise ValueError(f"X {design[:, head:].shape} and y {y.shape}: y must have {kind}")
        weights = sample_weights(self.sample_weight, len(y))
        if classes:
            y = _checked_classes(y, weights)
        elif self.balanced:
            raise ValueError("balanced=True: only classes have weights; pass balanced=False")
        balance = Balance(y if self.balanced else np.zeros(len(y), int), weights)
        values = {
            "X": design[:, head:],
            "y": y,
            "family": Multinomial(y.max() + 1) if classes else Gaussian(y.shape[1]),
            "sample_weight": weights,
            "design": design,
            "balance": balance,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check_size()
        object.__setattr__(self, "penalty", self._checked_penalty())
        if not self._is_penalised:
            object.__setattr__(self, "_columns", Columns(self.design[self.observed]))

    def _check_size(self):
        if self.n_params > LARGEST and not self.quadratic:
            raise ValueError(
                f"{self.n_params} coordinates of {self.n_outputs + 1} classes: the Hessian would "
                f"take {8e-9 * self.n_params**2:.0f} GB. Reduce the columns, by a TruncatedSVD, say"
            )

    def _checked_penalty(self):
        penalty = real_array("penalty", self.penalty)
        sizes = ((), (self.n_outputs,)) if self.quadratic else ((),)
        if penalty.shape not in sizes or (penalty < 0.0).any():
            each = ", or one a target" if self.quadratic else ""
            raise ValueError(f"penalty {self.penalty!r:.60} must be one number >= 0{each}")
        return own_copy(np.broadcast_to(penalty, self.n_outputs))

    @property
    def _is_penalised(self):
        return bool(self.penalty.all())

    @property
    def n_sites(self) -> int:
        """How many rows X has."""
        return len(self.y)

    @property
    def n_outputs(self) -> int:
        """q."""
        return self.family.spread.shape[1]

    @property
    def n_params(self) -> int:
        """D."""
        return self.n_outputs * self.design.shape[1]

    @property
    def quadratic(self) -> bool:
        """Whether the Hessian is the same everywhere."""
        return self.family.quadratic

    @cached_property
    def observed(self) -> np.ndarray:
        """(n,) False where the sample weight is 0."""
        return self.sample_weight > 0

    @cached_property
    def full_weights(self) -> np.ndarray:
        """(n,) s_n b(1) of each site."""
        return self.sample_weight * self.balance.full

    @cached_property
    def prior(self) -> np.ndarray:
        """(q, D') the diagonal of the penalty's curvature."""
        penalised = np.repeat([0.0, 1.0], [int(self.intercept), self.X.shape[1]])
        return np.outer(self.penalty, penalised)

    @cached_property
    def derivatives(self) -> VectorDerivatives:
        """Closed forms; kept, as what a fit has computed serves its folds and their check."""
        return VectorDerivatives(self)

    def coefficients(self, params: np.ndarray) -> np.ndarray:
        """Q theta of params (..., D), as (..., K, D')."""
        blocks = params.reshape(*params.shape[:-1], self.n_outputs, self.design.shape[1])
        return blocks if self.quadratic else self.family.spread @ blocks  # Q = I of targets

    def own_scores(self, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Scores (K, n) of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
        x = self.design[sites]
        if (sizes == 1).all():

            def single(rows):
                return np.einsum("nkd,nd->nk", self.coefficients(params[rows]), x[rows])

            return by_rows(single, len(sites), max(16, AT_ONCE // self.n_params)).T
        parts = np.split(x, np.cumsum(sizes)[:-1])
        pairs = zip(params, parts, strict=True)
        return np.hstack([self.coefficients(point) @ part.T for point, part in pairs])

    def own_means(self, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """P(class) or E[y] (n, K) of the same."""
        return self.family.mean(self.own_scores(params, sites, sizes)).T

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights), weights >= 0."""
        theta = anp.reshape(params, self.prior.shape)
        scores = anp.dot(anp.dot(self.family.spread, theta), self.design.T)
        weights = self.balance.relative(weights) * self.full_weights
        losses = anp.sum(weights * self.family.loss(scores, self.y))
        return losses + 0.5 * anp.sum(self.prior * theta**2)

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(y_n | x_n; params) for each n of the fold, without weights of any kind."""
        scores = self.coefficients(params) @ self.design[fold].T
        return self.family.loss(scores, self.y[fold])

    @checked
    def predict(self, params: np.ndarray, X: np.ndarray) -> np.ndarray:
        """P(class) or E[y] for each row of X (n, p), (n, K)."""
        X = real_array("X", X, 2)
        if X.shape[1] != self.X.shape[1]:
            raise ValueError(f"X {X.shape} must have {self.X.shape[1]} columns, as the model's X")
        design, _ = with_intercept(X, self.intercept)
        return self.family.mean(self.coefficients(params) @ design.T).T

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros, and the intercepts that fit the means; F is convex, so `rng` is not used."""
        start = np.zeros(self.prior.shape)
        if self.intercept:
            start[:, 0] = self.family.start(self.y, self.full_weights)
        return start.ravel()

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise NoFiniteOptimum where params (D,) run to infinity: separable data, no penalty."""
        if not (self._is_penalised or self.quadratic):
            self._check_finite(params, self.observed, "")

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """Raise NoFiniteOptimum for the first fold whose params (n_folds, D) run to infinity."""
        if self._is_penalised or self.quadratic:
            return
        for part in pieces(len(folds), 64):
            furthest = np.ptp(self.coefficients(params[part]) @ self.design.T, axis=1).max(axis=1)
            for number in part.start + np.flatnonzero(furthest > EXTREME):
                kept = self.observed & (fold_weights(self.n_sites, folds[number]) > 0.0)
                self._check_finite(params[number], kept, f"without fold {number} ")

    def _check_finite(self, params, sites, where):
        furthest = np.ptp(self.coefficients(params) @ self.design[sites].T, axis=0).max()
        if furthest <= EXTREME:
            return
        gains = self._gains(sites)
        if separating_direction(gains, np.ones(len(gains), int)) is not None:
            raise NoFiniteOptimum(
                f"{where}the multinomial likelihood has no finite maximum: linear combinations of "
                "the columns separate some classes (fitted scores up to "
                f"{furthest:.3g} apart). Pass penalty > 0"
            )

    def _gains(self, sites):
        """Rows (., D): how much a direction raises the score of each y over every other one."""
        spread = self.family.spread
        over = spread[self.y[sites], None] - spread  # (n, K, q)
        others = np.arange(len(spread)) != self.y[sites, None]
        x = np.repeat(self.design[sites], len(spread) - 1, axis=0)
        return (over[others][:, :, None] * x[:, None, :]).reshape(len(x), -1)

    def check_folds(self, folds: Folds) -> None:
        """Raise for a fold that leaves nothing to fit some parameter by.

        NoFiniteOptimum where it leaves no site of a class; LinAlgError where it holds the only rows
        that tell collinear columns apart, and there is no penalty.
        """
        if not self.quadratic:
            members = (self.y[:, None] == np.arange(len(self.family.spread))) * 1.0
            left = members[self.observed].sum(axis=0) - folds.indicator(self.n_sites) @ members
            if (left == 0.0).any():
                fold, label = np.argwhere(left == 0.0)[0]
                remedy = "use fewer sites a fold, or stratified folds"
                raise NoFiniteOptimum(f"fold {fold} leaves no site of class {label}: {remedy}")
        if not self._is_penalised:
            self._columns.check_folds(self.design, folds)


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
