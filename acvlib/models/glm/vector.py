"""Regressions with several linear predictors: of classes, or of several targets.

    scores_n = Q (b + B x_n)
    F(theta, w) = sum_n w_n s_n b_{c(n)}(w) loss(scores_n, y_n) + sum_k penalty_k |B_k|^2 / 2

b are the weights of `balance`, 1 unless `balanced`: then F is not linear in w.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...checks import check_choice, real_array
from ...folds import Folds
from ...folds.folds import emptied
from ...model import checked, own_copy
from ...trials import NoFiniteOptimum
from ...weighting import site_weights
from .balance import Balance
from .likelihoods import Gaussian, Multinomial
from .regression import Regression, with_intercept
from .separation import Columns

LARGEST = 2**14  # coordinates of a dense Hessian


@dataclass(frozen=True, eq=False, repr=False)
class VectorGLM(Regression):
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
    _columns: Columns = field(init=False, repr=False)  # where nothing is penalised

    def __post_init__(self):
        check_choice("family", self.family, ("multinomial", "gaussian"))
        design = with_intercept(self.X, self.intercept)
        X = design[:, int(self.intercept) :]
        classes = self.family == "multinomial"
        y = own_copy(real_array("y", self.y))
        if y.shape[:1] != X.shape[:1] or y.ndim != (1 if classes else 2):
            kind = "one class a row" if classes else "a row of targets for each"
            raise ValueError(f"X {X.shape} and y {y.shape}: y must have {kind}")
        weights = site_weights(self.sample_weight, len(y))
        if classes:
            y = _checked_classes(y, weights)
        elif self.balanced:
            raise ValueError("balanced=True: only classes have weights; pass balanced=False")
        family = Multinomial(y.max() + 1) if classes else Gaussian(y.shape[1])
        self._set(
            X=X,
            y=y,
            family=family,
            likelihood=family,
            offset=np.zeros(len(y)),
            sample_weight=weights,
            design=design,
            balance=Balance(y if self.balanced else np.zeros(len(y), int), weights),
        )
        self._check_size()
        penalty = self._checked_penalty()
        self._set(
            penalty=penalty,
            is_penalised=bool(penalty.all()),
            prior=np.outer(penalty, self.penalised).ravel(),
            pull=np.zeros(self.n_params),
        )
        self._check_columns()

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

    def own_means(self, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """P(class) or E[y] (n, K) of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
        return self.family.mean(self.own_scores(params, sites, sizes)).T

    @checked
    def predict(self, params: np.ndarray, X: np.ndarray) -> np.ndarray:
        """P(class) or E[y] for each row of X (n, p), (n, K)."""
        return self.family.mean(self._scores_of(params, X)).T

    def check_folds(self, folds: Folds) -> None:
        """Raise for a fold that leaves nothing to fit some parameter by.

        NoFiniteOptimum where it leaves no site of a class; LinAlgError where it holds the only rows
        that tell collinear columns apart, and there is no penalty.
        """
        if not self.quadratic:
            is_class = self.y[:, None] == np.arange(len(self.family.spread))
            if gone := emptied(folds, is_class & self.observed[:, None]):
                found = f"fold {gone[0]} leaves no site of class {gone[1]}"
                raise NoFiniteOptimum(f"{found}: use fewer sites a fold, or stratified folds")
        if not self.is_penalised:
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
