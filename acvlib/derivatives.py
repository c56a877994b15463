"""Derivatives of a weighted model: by autograd, unless the model overrides them with faster ones.

An `EstimatingEquation` has its residual r in place of the gradient, |r|^2 / 2 in place of F.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from autograd import elementwise_grad, grad, jacobian
from autograd.core import make_vjp, primitive_jvps, primitive_vjps
from autograd.extend import defjvp

from .checks import check_kind, check_whole, one_line, real_array
from .declared import declared
from .folds import WHOLE, Folds
from .folds.sites import Known
from .model import AModel, Refits, with_defaults
from .parallel import each_fold, pieces
from .solvers.inverse import (
    DenseFolds,
    DenseHessian,
    DenseJacobian,
    FoldSolver,
    Solvable,
    folds_at_once,
)
from .solvers.krylov import HessianOperator, KrylovFolds
from .weighting import weights_of

REACHED = 1e-8  # of the largest singular value of J, with rows of length 1; less is rounding
ALIKE = 1e-8  # relative difference of numbers that are the same but for rounding
GAMMA = ("gamma", "gammaln", "rgamma", "psi", "digamma")


class SmoothLoss:
    """value(f, ...), differentiable twice by autograd, and its derivatives in f, elementwise."""

    def __init__(self, value: Callable):
        self.value = value
        self.slope = elementwise_grad(value)
        self.curvature = elementwise_grad(self.slope)


class Derivatives:
    """F, its derivatives and the held-out losses of one model; all by autograd.

    A model with faster ones overrides them in a subclass, which its attribute `derivatives` gives.
    Of params, (D,) means one point for all folds and (n_folds, D) a point for each.
    """

    __repr__ = one_line
    matrix_free = False  # True: too many parameters for a Hessian, which `products` stands in for
    hessians_first = False  # True: `fold_hessians` at one point is so cheap that exact starts there
    chord_rate = 0.1  # a chord step that shrinks the decrement less asks for a new Hessian
    fresh = 0.1  # standard errors that a fold may move before its Hessian counts as old

    def __init__(self, model: Any):
        self.model = model
        self.n_sites = model.n_sites
        self.is_equation = hasattr(model, "residual")
        self.defaults = with_defaults(model)

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams (D,)) at weights (n_sites,); of an equation (|r|^2 / 2, r)."""
        if self.is_equation:
            residual = self._gradient(params, weights)
            return 0.5 * float(residual @ residual), residual
        vjp, value = make_vjp(lambda p: self.model.objective(p, weights), params)
        _check_shape("objective", value, (), "one number: sum over the sites")
        return float(value), vjp(1.0)

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """d2F/dparams2 (D, D) at weights (n_sites,); at weights 1 alone where `matrix_free`."""
        if self.matrix_free:
            return HessianOperator(self.products(params[None], WHOLE), len(params))
        kind = DenseJacobian if self.is_equation else DenseHessian
        return kind(jacobian(self._gradient)(params, weights))

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """J = d2F / dparams dweights (D, n_sites), in D reverse passes."""
        vjp, value = make_vjp(lambda w: self._gradient(params, w), weights)
        return np.array([vjp(unit) for unit in np.eye(len(value))])

    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """J (w_o - 1) of each fold, (n_folds, D), J at params (D,) and weights 1."""
        matrix = self.cross_matrix(params, np.ones(self.n_sites))
        return -(folds.indicator(self.n_sites) @ matrix.T)

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[Any, np.ndarray]:
        """(F (n_folds,), dF/dparams (n_folds, D)); F may be None unless `values` are wanted."""

        def gradient(point: np.ndarray, fold: np.ndarray) -> tuple[float, np.ndarray]:
            return self.value_and_gradient(point, self._without(fold))

        pairs = each_fold(gradient, params, folds, "gradients")
        objectives, gradients = zip(*pairs, strict=True)
        return np.array(objectives), np.array(gradients)

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        """H(w_o) + damping I of each fold; `whole`: H at params and w = 1, if it is known."""
        if self.matrix_free:

            def products(rows: np.ndarray) -> Any:
                return self.products(at(params, rows), folds[rows])

            return KrylovFolds(products, len(folds), damping)

        def hessian(point: np.ndarray, fold: np.ndarray) -> np.ndarray:
            return np.asarray(self.hessian(point, self._without(fold)))

        matrices = np.array(each_fold(hessian, params, folds, "Hessians"))
        return DenseFolds(matrices + damping * np.eye(matrices.shape[1]), not self.is_equation)

    def chord_gradients(
        self, params: np.ndarray, folds: Folds, centre: np.ndarray, accuracy: float
    ) -> np.ndarray:
        """dF/dparams (n_folds, D) near a centre (D,), to an accuracy in standard errors."""
        return self.fold_gradients(params, folds, values=False)[1]

    def newton_bounds(
        self, fit: Any, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """(Newton steps of the folds (n_folds, D), how far in standard errors each refit is from
        its step at most, by how much the losses at both differ at most); None where it is unknown.
        """
        return None

    def portions(self, folds: Folds, n_params: int) -> list[slice]:
        """Slices of the folds whose Hessians are in memory together."""
        return pieces(len(folds), len(folds) if self.matrix_free else folds_at_once(n_params))

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(x_t | x outside the fold) of the scored sites of each fold."""
        return folds.pick(each_fold(self._fold_heldout, params, folds, "held-out losses"))

    def prior_gradients(self, params: np.ndarray) -> np.ndarray | None:
        """dF/dparams (n, D) of what F has beside the data; None where it costs as much as all."""
        return None

    # where matrices are too large, and for estimating equations

    def products(self, params: np.ndarray, folds: Folds) -> Any:
        """H(w_o) of each fold as products with vectors; of `matrix_free` models.

        An object with multiply(vectors (B, D), rows (B,)): H(w_o) times each vector, of fold
        rows[i]; precondition(vectors, rows): an approximate inverse times each; evaluate(): (F
        (n,), gradients (n, D)) of folds with params of their own; rough: None, or a cheaper one.
        """
        raise NotImplementedError(f"{type(self).__name__} forms its Hessians")

    def anchored(self, params: np.ndarray) -> "Derivatives":
        """The same for refits from params (D,), with what they share; of `matrix_free` models."""
        return self

    def refits(self, params: np.ndarray, folds: Folds, tolerance: float) -> Refits | None:
        """Each fold refitted from params (D,) by the model's own solver; None where it has none."""
        return None

    def metric(self, params: np.ndarray, hessian: Solvable) -> Any:
        """The matrix in which errors of params count as standard errors.

        H itself, or of an equation H' (J J')^+ H, the inverse of its sandwich covariance. Errors by
        what no weight reaches have no standard error: they count as shares of 1 + |params|.
        """
        if not self.is_equation:
            return hessian
        matrix = np.asarray(hessian)
        precision, fixed = self.residual_precision(params)
        shares = np.linalg.pinv(matrix) @ fixed @ matrix / (1.0 + abs(params))[:, None]
        return matrix.T @ precision @ matrix + shares.T @ shares

    def residual_precision(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(J J')^+ (D, D) of an estimating equation, the inverse variance of its residual; and the
        projector (D, D) on the part of the residual that no weight reaches, which has no variance.

        Raises ValueError where no weight reaches any of it.
        """
        weights = np.ones(self.n_sites)
        cross = self.cross_matrix(params, weights)
        if not cross.any():  # nor elsewhere: terms of sites may be 0 at one point
            cross = self.cross_matrix(params + 0.1 * (1.0 + abs(params)), weights)
        if not cross.any():
            raise ValueError(
                "residual ignores the weights of all sites: multiply the term of each by its weight"
            )
        sizes = np.linalg.norm(cross, axis=1)
        sizes[sizes == 0.0] = 1.0
        units, spread, _ = np.linalg.svd(cross / sizes[:, None])
        spread = np.append(spread, np.zeros(len(sizes) - len(spread)))
        reached = spread > REACHED * spread[0]
        whitener = units[:, reached] / spread[reached] / sizes[:, None]
        rest = units[:, ~reached]
        return whitener @ whitener.T, sizes[:, None] * (rest @ rest.T) / sizes

    def _gradient(self, params, weights):
        """dF/dparams or the residual (D,), which autograd differentiates."""
        if self.is_equation:
            residual = self.model.residual(params, weights)
            each = "one number for each parameter, an array of autograd.numpy"
            _check_shape("residual", residual, params.shape, each)
            return residual
        return grad(self.model.objective)(params, weights)

    def _fold_heldout(self, params, fold):
        loss = self.model.heldout_loss
        unchecked = getattr(loss, "unchecked", None)  # what is given was checked at the door
        losses = loss(params, fold) if unchecked is None else unchecked(self.model, params, fold)
        losses = real_array("heldout_loss", losses, finite=False)
        _check_shape("heldout_loss", losses, fold.shape, "one loss for each site of the fold")
        return losses

    def _without(self, fold):
        weights = np.ones(self.n_sites)
        weights[fold] = 0.0
        return weights


@declared
def derivatives_of(model: AModel) -> Derivatives:
    """The derivatives that a model offers, or those by autograd. Raises TypeError for no model."""
    _push_gamma_forward()
    own = getattr(model, "derivatives", None)
    name = type(model).__name__
    if own is not None:
        check_kind(f"{name}.derivatives", own, Derivatives, ": rename yours")
        return own
    if hasattr(model, "objective") == hasattr(model, "residual"):
        wanted = "either an objective (acv.Model) or a residual (EstimatingEquation)"
        raise TypeError(f"{name} must have {wanted}: rename what is meant for something else")
    check_whole("n_sites", model.n_sites, 1)
    return Derivatives(model)


def _check_shape(name, value, wanted, each):
    plain = () if isinstance(value, int | float) else type(value).__name__
    shape = getattr(value, "shape", plain)
    if shape != wanted:
        raise ValueError(f"{name} returns shape {shape}, must be {wanted}, {each}")


def _push_gamma_forward():
    """Give autograd's gamma functions the forward mode that they lack, where a model uses them.

    The slope of a function of one number is the same in both modes.
    """
    special = sys.modules.get("autograd.scipy.special")  # loads all of scipy.stats: not from here
    for name in GAMMA if special else ():
        function = getattr(special, name)
        if function not in primitive_jvps:
            back = primitive_vjps[function]
            defjvp(function, lambda g, ans, x, back=back: back((0,), ans, (x,), {})(g)[0])


def check_weights_read(name: str, slopes: np.ndarray, sites: np.ndarray) -> None:
    """Raise ValueError unless derivatives by weights (n, n_sites), each row of something else or at
    another point, show that the weight of each of these sites is read, and not only their sum.
    """
    slopes = np.nan_to_num(slopes[:, sites])
    remedy = "multiply the term of each site by its weight"
    unread = ~slopes.any(axis=0)
    if unread.any():
        shown = f"{unread.sum()} sites, such as {sites[unread][:3]}"
        raise ValueError(f"{name} ignores the weights of {shown}: {remedy}")
    sizes = abs(slopes).max(axis=1, keepdims=True)
    if len(sites) > 1 and (abs(slopes - slopes[:, :1]) <= ALIKE * sizes).all():
        raise ValueError(f"{name} reads nothing but the sum of the weights: {remedy}")


def at(params: np.ndarray, rows: Any) -> np.ndarray:
    """Params (D,) as they are, or the rows of params (n, D)."""
    return params if params.ndim == 1 else params[rows]


def kept_share(model: Any, folds: Folds) -> np.ndarray:
    """1 - m (n_folds,), the share of the curvature that stays; 1 where F is a mean.

    m is the share of weight that the fold leaves out, of what the fit counts.
    """
    if with_defaults(model).normalised:
        return np.ones(len(folds))
    weights = Known.of(model).observed * weights_of(model)
    return 1.0 - folds.indicator(model.n_sites) @ weights / weights.sum()
