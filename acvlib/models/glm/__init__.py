"""Generalised linear models with an L2 penalty, of one linear predictor or of q.

    eta_n = b + B x_n
    lambda(w) = penalty + site_penalty sum_n w_n s_n
    F(theta, w) = sum_n w_n s_n b_{c(n)}(w) loss(eta_n, y_n) + lambda(w) |B|^2 / 2

b_c(w) = sum_n w_n s_n / (K sum_{n in c} w_n s_n) of K classes if they are `balanced`, else 1. F is
then linear in w, so that the jackknife is one frozen Newton step without rescaling.

Source of balanced classes: King and Zeng (2001); scikit-learn's class_weight="balanced".
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import autograd.numpy as anp
import numpy as np
from autograd.tracer import getval

from ...checks import columns_of, in_columns_of, real_array
from ...declared import Flag, NonNegative, Params, Real, Rng, Sizes, declared
from ...folds import WHOLE, Fold, Folds
from ...folds.folds import emptied
from ...model import ModelDefaults
from ...trials import NoFiniteOptimum
from ...weighting import Weights, site_weights
from .columns import Columns, Rank, check_finite
from .derivatives import GLMDerivatives
from .families import Family, Multinomial, settled

LARGEST = 2**14  # coordinates of a dense Hessian


class Table(Real):
    """A matrix that stays as it is given: its columns may have names."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Any:
        super().__call__(name, value, sizes)
        return value


@declared
@dataclass(frozen=True, eq=False, repr=False)
class GLM(ModelDefaults):
    """A regression's MAP in D = q (p + intercept) coordinates, a row [b, beta] a predictor.

    Intercepts are not penalised. Where there are some, columns and y of "gaussian" are centred
    inside; columns are scaled.

    Parameters
    ----------
    X: (n, p) covariates, copied.
    y: (n,) responses, copied; classes 0, ..., K - 1 for "multinomial", q = K - 1; (n, q) targets of
        "gaussian". What has an index, as X has, is put into the order of X.
    family: "gaussian" (unit variance), "logistic", "multinomial", "poisson", "poisson rate" (counts
        over an exposure, which is the sample weight), "probit", or a `Family`.
    penalty: the ridge lambda of the sum of losses; one number, or one a column of X (p,). That of
        "multinomial" is for K rows of coefficients, which sum to 0.
    site_penalty: one that comes with each unit of weight: for a penalised *mean* of losses.
    sample_weight: s >= 0, (n,) or one number; a site of sample weight 0 is missing, in no fold.
    balanced: weigh each class of "multinomial" by the inverse of its share of w s, anew for each w.

    Raises
    ------
    ValueError: responses outside the family's range, or of one class; collinear columns without a
        penalty; more coordinates than a dense Hessian can have.
    """

    convex = True  # every loss is convex in eta
    sites = "rows"
    X: Annotated[Any, Table("n p")] = field(repr=False)
    y: Annotated[np.ndarray, Real("n", "n q")] = field(repr=False)
    family: Family | Multinomial | str = "logistic"
    penalty: Annotated[float | np.ndarray, Real("", "p", least=0.0)] = 0.0
    site_penalty: NonNegative = 0.0
    intercept: Flag = True
    sample_weight: Annotated[Any, Real("", "n")] = field(default=1.0, repr=False)
    balanced: Flag = False
    columns: Columns = field(init=False, repr=False)
    level: np.ndarray = field(init=False, repr=False)  # (D,) the mean of y in gaussian intercepts
    responses: np.ndarray = field(init=False, repr=False)  # y less level, for families: ([q,] n)
    n_sites: int = field(init=False, repr=False)
    n_outputs: int = field(init=False, repr=False)  # q
    n_params: int = field(init=False, repr=False)  # D
    observed: np.ndarray = field(init=False, repr=False)  # (n,) False where the sample weight is 0
    quadratic: bool = field(init=False, repr=False)  # whether the Hessian is the same everywhere
    prior: np.ndarray = field(init=False, repr=False)  # (D,) of the ridge that no weight changes
    pull: np.ndarray = field(init=False, repr=False)  # (D,) that comes with each unit of weight
    _names: Any = field(init=False, repr=False)  # of the columns of X
    _rank: Rank | None = field(init=False, repr=False)  # where some column is not penalised

    def __post_init__(self):
        names = columns_of(self.X)
        X = real_array("X", self.X, 2)
        n, p = X.shape
        weights = site_weights(self.sample_weight, n)
        observed = weights > 0.0
        family, y = settled(self.family, self.y)
        if self.balanced and isinstance(family, Family):
            raise ValueError("balanced=True: of 'multinomial' alone classes have weights")
        q = y.shape[1] if y.ndim == 2 else family.coupled
        free = np.zeros(int(self.intercept))
        n_params = q * (len(free) + p)
        if n_params > LARGEST:
            raise ValueError(
                f"{n_params} coordinates of {q} predictors: the Hessian would take "
                f"{8e-9 * n_params**2:.0f} GB. Reduce the columns, by a TruncatedSVD, say"
            )
        ridge = self.penalty / weights.sum() + self.site_penalty + np.zeros(p)
        columns = Columns(X, self.intercept, weights, ridge)
        level = np.zeros((q, len(free) + p))
        if self.intercept and family.quadratic:
            level[:, 0] = np.average(y, axis=0, weights=weights)
        self.__dict__.update(
            X=columns.standard[:, len(free) :] if columns.plain else X,
            y=y,
            family=family,
            sample_weight=weights,
            columns=columns,
            level=level.ravel(),
            responses=(y - level[:, 0] if level.any() else y).T,
            n_sites=n,
            n_outputs=q,
            n_params=n_params,
            observed=observed,
            quadratic=family.quadratic,
            prior=np.tile(np.append(free, self.penalty + np.zeros(p)), q),
            pull=np.tile(np.append(free, self.site_penalty + np.zeros(p)), q),
            _names=names,
            _rank=None if ridge.all() else Rank(columns.standard[observed], columns.free),
        )
        for array in (self.X, self.observed, self.prior, self.pull):
            array.setflags(write=False)
        present = self._kinds().any(axis=0)
        if not present.all():
            where = "" if observed.all() else " where sample_weight is above 0"
            lacking = f"y has {family.lacking.format(np.argmin(present))}{where}"
            raise NoFiniteOptimum(f"{lacking}: add rows of what it lacks, or drop that class")

    def _kinds(self):
        """Flags (n, n_kinds) of observed sites: of each kind one is needed, to fit intercepts."""
        free = not self.intercept and isinstance(self.family, Family)
        return (self.family.kinds(self.y) | free) & self.observed[:, None]

    @property
    def design(self) -> np.ndarray:
        """Ones for an intercept, then X: (n, p + intercept)."""
        return np.column_stack([np.ones((self.n_sites, int(self.intercept))), self.X])

    @property
    def spread(self) -> np.ndarray:
        """What takes the q predictors to scores, one a class or target: (K, q)."""
        classes = isinstance(self.family, Multinomial)
        return self.family.contrasts if classes else np.eye(self.n_outputs)

    @property
    def derivatives(self) -> GLMDerivatives:
        """Closed forms; tested against autograd of `objective`."""
        return GLMDerivatives(self)

    def ridge(self, total: Any) -> Any:
        """The diagonal (D,) of the penalty's curvature that goes with a total weight."""
        return self.prior + total * self.pull

    def standard_ridge(self, total: float) -> np.ndarray:
        """The same of standard params."""
        return self.ridge(total) / np.tile(self.columns.scale**2, self.n_outputs)

    @property
    def standard_pull(self) -> np.ndarray:
        """What a unit of weight adds to it, (D,)."""
        return self.standard_ridge(1.0) - self.standard_ridge(0.0)

    def balanced_weights(self, weights: Any) -> Any:
        """w b(w) of weights (n,); differentiable by autograd.

        Raises NoFiniteOptimum where a balanced class has no weight.
        """
        if not self.balanced:
            return weights
        members = 1.0 * self.family.kinds(self.y).T
        totals = anp.dot(members, weights * self.sample_weight)
        if not (some := getval(totals) > 0.0).all():
            raise NoFiniteOptimum(f"weights leave {self.family.lacking.format(np.argmin(some))}")
        return weights * (anp.sum(totals) / (len(members) * totals))[self.y]

    def standard(self, params: np.ndarray) -> np.ndarray:
        """Params (..., D) of standard columns, and of y less its level."""
        return self.columns.inward(params - self.level)

    def predictors(self, standard: np.ndarray, sites: Any = slice(None)) -> np.ndarray:
        """eta (..., q, n) of sites at standard params (..., D)."""
        theta = standard.reshape(*standard.shape[:-1], self.n_outputs, -1)
        return np.tensordot(theta, self.columns.standard[sites], axes=(-1, 1))

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F(params, weights), weights >= 0."""
        theta = anp.reshape(params - self.level, (self.n_outputs, -1))
        losses = self.family.losses(anp.dot(theta, self.design.T), self.responses)
        each = self.balanced_weights(weights) * self.sample_weight
        ridge = self.ridge(anp.dot(weights, self.sample_weight))
        return anp.sum(each * losses) + 0.5 * anp.sum(ridge * params**2)

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """-log p(y_n | x_n; params) for each n of the fold, without weights of any kind."""
        eta = self.predictors(self.standard(params), fold)
        return self.family.losses(eta, self.responses[..., fold])

    @declared
    def predict(self, params: Params, X: Any) -> np.ndarray:
        """E[y | x; params], or P(class) (m, K), for each row of X (m, p).

        Columns with names, if those of the model's X have some, are put into their order.
        """
        X = in_columns_of(self._names, "X", X)
        X = real_array("X", X, 2)
        if X.shape[1] != self.X.shape[1]:
            raise ValueError(f"X {X.shape} must have {self.X.shape[1]} columns, as the model's X")
        design = np.column_stack([np.ones((len(X), int(self.intercept))), X])
        return self.family.means(params.reshape(self.n_outputs, -1) @ design.T)

    @declared
    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Zeros, and the intercepts that fit the means; F is convex, so `rng` is not used."""
        start = np.zeros((self.n_outputs, len(self.columns.scale)))
        if self.intercept:
            weights = self.sample_weight * self.balanced_weights(np.ones(self.n_sites))
            start[:, 0] = self.family.start(self.responses, weights)
        return start.ravel() + self.level

    def check_folds(self, folds: Folds) -> None:
        """Raise for a fold that leaves nothing to fit some parameter by.

        NoFiniteOptimum where it leaves one class, and there is an intercept, or no site of a class;
        LinAlgError where it holds the only rows that tell collinear columns apart, and there is no
        penalty.
        """
        if gone := emptied(folds, self._kinds()):
            left = f"{folds.name(gone[0])} leaves {self.family.lacking.format(gone[1])}"
            raise NoFiniteOptimum(f"{left}: use fewer sites a fold, or stratified folds")
        if self._rank:
            self._rank.check_folds(self.columns.standard, folds)

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise NoFiniteOptimum where params (D,) run to infinity: separable data, no penalty."""
        self.check_refits(params[None], WHOLE)

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """Raise NoFiniteOptimum for the first fold whose params (n_folds, D) run to infinity."""
        if self._rank and not self.quadratic:
            check_finite(self, params, folds)
