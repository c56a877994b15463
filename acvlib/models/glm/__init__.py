"""Generalised linear models with an L2 penalty, of one linear predictor or of q.

    eta_n = offset_n + b + B x_n
    lambda(w) = penalty + site_penalty sum_n w_n s_n
    F(theta, w) = sum_n w_n s_n b_{c(n)}(w) loss(eta_n, y_n) + lambda(w) |B|^2 / 2

b(w) are the weights of `balance`, 1 unless `balanced`. F is then linear in w, so that the jackknife
is one frozen Newton step without rescaling.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np
from scipy.sparse import issparse

from ...checks import in_order_of, real_array, real_number
from ...folds import Folds
from ...folds import weights as fold_weights
from ...model import ModelDefaults, checked, number_or_array, own_copy
from ...parallel import pieces
from ...weighting import site_weights
from .balance import Balance
from .columns import Columns, in_columns_of, one_a_row
from .derivatives import RegressionDerivatives
from .families import Family, family_of
from .likelihoods import likelihood_of
from .separation import EXTREME, Rank, check_finite, check_start
from .sums import by_rows, span

LARGE = 16  # sites a fold from which on a product a fold is faster than one a site
AT_ONCE = 2**20  # coefficients that a thread has in memory
LARGEST = 2**14  # coordinates of a dense Hessian


@dataclass(frozen=True, eq=False, repr=False)
class GLM(ModelDefaults):
    """A regression's MAP in D = q (p + intercept) coordinates, a row [b, beta] a predictor.

    Intercepts are not penalised. Inside, columns are centred, if there is an intercept, and scaled.

    Parameters
    ----------
    X: (n, p) covariates, copied.
    y: (n,) responses, copied; classes 0, ..., K - 1 for "multinomial", q = K - 1; (n, q) targets of
        "gaussian". What has an index, as X has, is put into the order of X.
    family: "gaussian" (unit variance), "logistic", "multinomial", "poisson", "poisson rate" (counts
        over an exposure, which is the sample weight), "gamma", "probit", or a `Family` such as
        `tweedie`.
    penalty: the ridge lambda of the sum of losses; one number, or one a column of X (p,), or one a
        target (q,). That of "multinomial" is for K rows of coefficients, which sum to 0.
    site_penalty: one that comes with each unit of weight: for a penalised *mean* of losses.
    offset: (n,) or one number, added to eta, of all families but "multinomial".
    sample_weight: s >= 0, (n,) or one number; a site of sample weight 0 is missing, in no fold.
    balanced: weigh each class of "multinomial" by the inverse of its share of w s, anew for each w.

    Raises
    ------
    TypeError: X is sparse.
    ValueError: shapes, NaN, what is no real number, responses outside the family's range, one class
        only, an offset too large for exp, collinear columns without a penalty, or more coordinates
        than a dense Hessian of classes can have.
    """

    convex = True  # every loss is convex in eta
    sites = "rows"
    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    family: Family | str = "logistic"
    penalty: Any = 0.0
    site_penalty: float = 0.0
    intercept: bool = True
    offset: Any = field(default=0.0, repr=False)
    sample_weight: Any = field(default=1.0, repr=False)
    balanced: bool = False
    responses: np.ndarray = field(init=False, repr=False)  # (q, n), or classes (n,)
    likelihood: Any = field(init=False, repr=False)
    columns: Columns = field(init=False, repr=False)
    balance: Balance = field(init=False, repr=False)
    prior: np.ndarray = field(init=False, repr=False)  # (D,) of the ridge that no weight changes
    pull: np.ndarray = field(init=False, repr=False)  # (D,) that comes with each unit of weight
    is_penalised: bool = field(init=False, repr=False)
    _names: Any = field(init=False, repr=False)  # of the columns of X
    _rank: Rank = field(init=False, repr=False)  # where not all is penalised

    def __post_init__(self):
        if issparse(self.X):
            raise TypeError("X is sparse: GLM forms dense Hessians; pass X.toarray()")
        names = getattr(self.X, "columns", None)
        of_rows = ("y", "offset", "sample_weight")
        index = getattr(self.X, "index", None)
        ordered = {name: in_order_of(index, name, getattr(self, name)) for name in of_rows}
        X = real_array("X", self.X, 2)
        head = real_number("intercept", self.intercept)
        if head not in (0.0, 1.0):
            raise ValueError(f"intercept = {head:g}: must be True or False")
        self._set(X=X, intercept=bool(head), _names=names)
        self._set_responses(**ordered)
        self._set_penalty()
        total = self.sample_weight.sum()
        ridge = (self.ridge(total) / total).reshape(self.n_outputs, -1).mean(axis=0)
        columns = Columns(X, self.intercept, self.sample_weight, ridge[int(self.intercept) :])
        self._set(columns=columns, X=columns.X)
        if not self.is_penalised:
            self._set(_rank=Rank(self.columns.standard[self.observed]))
        check_start(self)

    def _set(self, **values):
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _set_responses(self, y, offset, sample_weight):
        n = len(self.X)
        weights = site_weights(sample_weight, n)
        y = own_copy(y, name="y")
        multinomial = isinstance(self.family, str) and self.family == "multinomial"
        family = self.family if multinomial else family_of(self.family)
        is_table = y.ndim == 2 and getattr(family, "name", "") == "gaussian"
        if y.shape[:1] != (n,) or y.ndim != 1 + is_table:
            raise ValueError(
                f"X {self.X.shape} must be 2-d and y {y.shape} have one entry for each row, or one "
                "a target of the gaussian family"
            )
        y, responses, likelihood = likelihood_of(family, y, weights, self.intercept)
        if self.balanced and not multinomial:
            raise ValueError("balanced=True: of 'multinomial' alone classes have weights")
        if multinomial and np.any(offset):
            raise ValueError("offset: one number for all scores of 'multinomial' is no change")
        self._set(
            y=y,
            responses=responses,
            family=family,
            likelihood=likelihood,
            offset=one_a_row("offset", offset, n),
            sample_weight=weights,
            balance=Balance(y if self.balanced else np.zeros(n, int), weights),
        )

    def _set_penalty(self):
        q = self.n_outputs
        p = self.X.shape[1]
        n_params = q * (p + int(self.intercept))
        if n_params > LARGEST and not self.quadratic:
            raise ValueError(
                f"{n_params} coordinates of {q + 1} classes: the Hessian would take "
                f"{8e-9 * n_params**2:.0f} GB. Reduce the columns, by a TruncatedSVD, say"
            )
        each = (q, "target") if self.y.ndim == 2 else (p, "column")
        penalty = number_or_array("penalty", self.penalty, *each, least=0.0)
        site_penalty = real_number("site_penalty", self.site_penalty, least=0.0)
        head = np.zeros((q, int(self.intercept)))
        ridge = np.reshape(penalty, (-1, 1)) if self.y.ndim == 2 else penalty
        ridge = np.broadcast_to(ridge, (q, p))
        self._set(
            penalty=penalty,
            site_penalty=site_penalty,
            is_penalised=bool(np.min(penalty) > 0.0 or site_penalty > 0.0),
            prior=np.hstack([head, ridge]).ravel(),
            pull=site_penalty * np.hstack([head, np.ones((q, p))]).ravel(),
        )

    @property
    def n_sites(self) -> int:
        """How many rows X has."""
        return len(self.X)

    @property
    def n_outputs(self) -> int:
        """q."""
        return self.likelihood.n_outputs

    @property
    def n_params(self) -> int:
        """D."""
        return self.n_outputs * self.columns.dim

    @property
    def quadratic(self) -> bool:
        """Whether the Hessian is the same everywhere."""
        return self.likelihood.quadratic

    @property
    def design(self) -> np.ndarray:
        """Ones for an intercept, then X: (n, p + intercept), read-only."""
        if self.columns.plain:
            return self.columns.standard
        design = np.column_stack([np.ones((self.n_sites, int(self.intercept))), self.X])
        design.setflags(write=False)
        return design

    @cached_property
    def observed(self) -> np.ndarray:
        """(n,) False where the sample weight is 0."""
        return self.sample_weight > 0

    @cached_property
    def full_weights(self) -> np.ndarray:
        """(n,) s_n b(1) of each site."""
        return self.sample_weight * self.balance.full

    @property
    def derivatives(self) -> RegressionDerivatives:
        """Closed forms; tested against autograd of `objective`."""
        return RegressionDerivatives(self)

    def ridge(self, total: Any) -> Any:
        """The diagonal (D,) of the penalty's curvature that goes with a total weight."""
        return self.prior + total * self.pull

    def standard_ridge(self, total: float) -> np.ndarray:
        """The same of standard params, a row for each set of coupled predictors."""
        ridge = self.ridge(total).reshape(self.n_outputs, -1) / self.columns.scale**2
        return ridge.reshape(self.n_outputs // self.likelihood.coupled, -1)

    def predictors(self, standard: np.ndarray, sites: Any = slice(None)) -> np.ndarray:
        """eta (..., q, n) of sites at standard params (..., D)."""
        theta = standard.reshape(*standard.shape[:-1], self.n_outputs, self.columns.dim)
        eta = np.tensordot(theta, self.columns.standard[sites], axes=(-1, 1))
        eta += self.offset[sites]
        return eta

    def own_scores(self, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """eta (q, n) of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
        standard = self.columns.inward(params)
        if len(sites) > LARGE * len(sizes):
            pairs = zip(standard, np.split(sites, np.cumsum(sizes)[:-1]), strict=True)
            return np.hstack([self.predictors(point, part) for point, part in pairs])
        fold = np.repeat(np.arange(len(sizes)), sizes)

        def of_rows(rows):
            theta = standard[span(fold[rows])]
            theta = theta.reshape(len(theta), self.n_outputs, self.columns.dim)
            return np.einsum("nqd,nd->nq", theta, self.columns.standard[span(sites[rows])])

        size = max(16, AT_ONCE // max(self.n_params, 1))
        return by_rows(of_rows, len(sites), size).T + self.offset[sites]

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights), weights >= 0."""
        theta = anp.reshape(params, (self.n_outputs, self.X.shape[1] + int(self.intercept)))
        eta = anp.dot(theta, self.design.T) + self.offset
        relative = self.balance.relative(weights) * self.full_weights
        losses = anp.sum(relative * self.likelihood.loss(eta, self.responses))
        ridge = self.ridge(anp.dot(weights, self.sample_weight))
        return losses + 0.5 * anp.sum(ridge * params**2)

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(y_n | x_n; params) for each n of the fold, without weights of any kind."""
        eta = self.predictors(self.columns.inward(params), fold)
        return self.likelihood.loss(eta, self.responses[..., fold])

    @checked
    def predict(self, params: np.ndarray, X: np.ndarray, offset: Any = 0.0) -> np.ndarray:
        """E[y | x; params], or P(class) (n, K), for each row of X (n, p)."""
        X = real_array("X", in_columns_of(self._names, X), 2)
        if X.shape[1] != self.X.shape[1]:
            raise ValueError(f"X {X.shape} must have {self.X.shape[1]} columns, as the model's X")
        theta = params.reshape(self.n_outputs, -1)
        eta = theta[:, int(self.intercept) :] @ X.T + one_a_row("offset", offset, len(X))
        return self.likelihood.mean(eta + theta[:, :1] if self.intercept else eta)

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros, and the intercepts that fit the means; F is convex, so `rng` is not used."""
        start = np.zeros((self.n_outputs, self.columns.dim))
        if self.intercept:
            start[:, 0] = self.likelihood.start(self.responses, self.full_weights)
        return start.ravel()

    def check_folds(self, folds: Folds) -> None:
        """Raise for a fold that leaves nothing to fit some parameter by.

        NoFiniteOptimum where it leaves one class, and there is an intercept, or no site of a class;
        LinAlgError where it holds the only rows that tell collinear columns apart, and there is no
        penalty.
        """
        if self.intercept or self.family == "multinomial":
            self.likelihood.check_folds(self.responses, self.observed, folds)
        if not self.is_penalised:
            self._rank.check_folds(self.columns.standard, folds)

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise NoFiniteOptimum where params (D,) run to infinity: separable data, no penalty."""
        if not (self.is_penalised or self.quadratic):
            check_finite(self, params, self.observed, "")

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """Raise NoFiniteOptimum for the first fold whose params (n_folds, D) run to infinity."""
        if self.is_penalised or self.quadratic:
            return
        for part in pieces(len(folds), 64):
            eta = self.predictors(self.columns.inward(params[part])) - self.offset
            furthest = self.likelihood.apart(eta).max(axis=-1)
            for number in part.start + np.flatnonzero(furthest > EXTREME):
                kept = self.observed & (fold_weights(self.n_sites, folds[number]) > 0.0)
                check_finite(self, params[number], kept, f"without fold {number} ")
