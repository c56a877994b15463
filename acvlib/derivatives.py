"""Derivatives of a weighted model: by its fast paths where it has them, by autograd otherwise; and solvers.

An `EstimatingEquation` takes part with its residual in place of the gradient and |residual|^2 / 2 in
place of the objective. Functions over folds take params (n_folds, D), one row a fold, and evaluate at the
fold's weights w_o; they run through joblib, so that `joblib.parallel_config` spreads folds over workers.
"""

from typing import NamedTuple

import numpy as np
from autograd import grad, jacobian
from autograd.core import make_vjp
from joblib import Parallel, delayed
from scipy.linalg import cho_factor, cho_solve, lu_factor, lu_solve

from .folds import WHOLE, indicator, sizes
from .folds import weights as fold_weights
from .parallel import blas_for, track
from .solvers import krylov
from .solvers.krylov import conjugate_gradient as conjugate_gradient
from .solvers.lissa import lissa as lissa


class NewtonSteps(NamedTuple):
    """Every fold's Newton step: params (n_folds, D) and H(w_o)'s smallest eigenvalue (n_folds,).

    The eigenvalues are nan for an estimating equation, and may be a lower bound of the same sign. heldout: what
    `heldout_losses` gives at params, where a fast path has it at hand, else None.
    """

    params: np.ndarray
    smallest_eigenvalue: np.ndarray
    heldout: np.ndarray | None = None


class IndefiniteHessian(np.linalg.LinAlgError):
    """The Hessian is not positive definite: the point is not a minimum, or a parameter is not identified."""


def is_equation(model):
    """True for an `EstimatingEquation`, False for a `WeightedModel`."""
    return hasattr(model, "residual")


def _fast(model, name):
    """The model's fast path for one function of this module, or None."""
    return getattr(getattr(model, "fast", None), name, None)


def _gradient_function(model):
    return model.residual if is_equation(model) else grad(model.objective)


def value_and_gradient(model, params, weights):
    """(F, dF/dparams): a float and (D,)."""
    if fast := _fast(model, "value_and_gradient"):
        return fast(params, weights)
    if is_equation(model):
        residual = np.asarray(model.residual(params, weights))
        return 0.5 * float(residual @ residual), residual
    vjp, value = make_vjp(lambda p: model.objective(p, weights), params)
    return float(value), vjp(1.0)


def hessian_and_cross(model, params, weights):
    """(H, J) = (d2F/dparams2 (D, D), d2F/dparams dweights (D, n_sites)); by autograd, in D reverse passes."""
    if fast := _fast(model, "hessian_and_cross"):
        return fast(params, weights)
    gradient = _gradient_function(model)
    vjp, value = make_vjp(lambda both: gradient(both[0], both[1]), (params, weights))
    rows = [vjp(unit) for unit in np.eye(len(value))]
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


def hessian(model, params, weights):
    """d2F/dparams2 (D, D)."""
    if fast := _fast(model, "hessian"):
        return fast(params, weights)
    if fast := _fast(model, "hessian_and_cross"):
        return fast(params, weights)[0]
    return jacobian(_gradient_function(model))(params, weights)


def _each_fold(function, model, params, folds, label):
    jobs = (
        delayed(function)(model, p, fold)
        for p, fold in track(list(zip(params, folds, strict=True)), label)
    )
    return Parallel()(jobs)


def _fold_gradient(model, params, fold):
    return value_and_gradient(model, params, fold_weights(model.n_sites, fold))


def fold_gradients(model, params, folds):
    """(F (n_folds,), dF/dparams (n_folds, D)) at each fold's params and weights."""
    if fast := _fast(model, "fold_gradients"):
        return fast(params, folds)
    values, gradients = zip(
        *_each_fold(_fold_gradient, model, params, folds, "gradients"), strict=True
    )
    return np.array(values), np.array(gradients)


def _fold_hessian(model, params, fold):
    return hessian(model, params, fold_weights(model.n_sites, fold))


def fold_hessians(model, params, folds):
    """d2F/dparams2 (n_folds, D, D) at each fold's params and weights."""
    if fast := _fast(model, "fold_hessians"):
        return fast(params, folds)
    return np.array(_each_fold(_fold_hessian, model, params, folds, "Hessians"))


def weighted_derivatives(model, params, weights):
    """(F (n,), dF/dparams (n, D), d2F/dparams2 (n, D, D)) at each row of params (n, D) and weights (n, n_sites)."""
    if fast := _fast(model, "weighted_derivatives"):
        return fast(params, weights)
    pairs = list(zip(params, weights, strict=True))
    values, gradients = zip(*(value_and_gradient(model, p, w) for p, w in pairs), strict=True)
    return np.array(values), np.array(gradients), np.array([hessian(model, p, w) for p, w in pairs])


def _fold_heldout(model, params, fold):
    return np.asarray(model.heldout_loss(params, fold))


def heldout_losses(model, params, folds):
    """One array of -log p(x_t | x outside the fold) for each fold, in fold order."""
    if fast := _fast(model, "fold_heldout_losses"):
        return fast(params, folds)
    return _each_fold(_fold_heldout, model, params, folds, "held-out losses")


def heldout_expansion(model, params, move, fold):
    """The held-out losses of a fold at params + move, to first order in the move, (len(fold),)."""
    if fast := _fast(model, "heldout_expansion"):
        return fast(params, move, fold)
    slopes = jacobian(lambda p: model.heldout_loss(p, fold))(params)
    return np.asarray(model.heldout_loss(params, fold)) + slopes @ move


def jackknife_params(model, fit, folds, damping=0.0):
    """theta - H^-1 J (w_o - 1) for each fold, (n_folds, D); H and J at the fit and w = 1.

    A fast path of this and the next two functions may take H from `fit.metric`.
    """
    if fast := _fast(model, "jackknife_params"):
        return fast(fit, folds, damping)
    if fast := is_matrix_free(model) and _fast(model, "fold_cross"):
        return fit.params - inverse_hessian(model, fit.params, damping)(fast(fit.params, folds).T).T
    matrix, cross = hessian_and_cross(model, fit.params, np.ones(model.n_sites))
    solve, left_out = solver(model, matrix, damping), indicator(folds, model.n_sites)
    if model.n_sites < len(folds):  # a solve for each site, as these are fewer
        return fit.params + left_out @ solve(cross).T
    return fit.params + solve((left_out @ cross.T).T).T


def newton_params(model, fit, folds, damping=0.0):
    """theta - H(w_o)^-1 dF/dtheta(theta, w_o) for each fold, as `NewtonSteps`."""
    if fast := _fast(model, "newton_params"):
        return NewtonSteps(*fast(fit, folds, damping))
    start = np.tile(fit.params, (len(folds), 1))
    _, gradients = fold_gradients(model, start, folds)
    if is_matrix_free(model):
        return _newton_without_matrices(model, start, folds, gradients, damping)
    hessians = fold_hessians(model, start, folds) + damping * np.eye(start.shape[1])
    smallest = (
        np.full(len(folds), np.nan) if is_equation(model) else np.linalg.eigvalsh(hessians)[:, 0]
    )
    return NewtonSteps(start - np.linalg.solve(hessians, gradients[..., None])[..., 0], smallest)


def is_matrix_free(model):
    """Whether a model has too many parameters for its Hessian to be formed: its fast path has `hessian_products`."""
    return _fast(model, "hessian_products") is not None


def hessian_products(model, params, folds):
    """H(w_o) of each fold at its params (n_folds, D), as an operator for `krylov`; for matrix-free models only.

    That of a single fold also has `evaluate()`, which gives what `fold_gradients` does.
    """
    return _fast(model, "hessian_products")(params, folds)


def hessian_operator(model, params, damping=0.0):
    """H(params, w = 1) + damping as a `krylov.HessianOperator`; for matrix-free models only."""
    products = hessian_products(model, params[None], WHOLE)
    return krylov.HessianOperator(products, len(params), damping)


def inverse_hessian(model, params, damping=0.0):
    """A function solving (H + damping) x = b for columns b, H at params (D,) and w = 1; raises IndefiniteHessian."""
    if not is_matrix_free(model):
        return solver(model, hessian(model, params, np.ones(model.n_sites)), damping)
    return lambda b: _definite(hessian_operator(model, params, damping).solutions(b.T)).x.T


def _definite(solved):
    if solved.smallest.min() <= 0.0:
        raise IndefiniteHessian(
            f"the Hessian has negative curvature (least Ritz value {solved.smallest.min():.3g} of the preconditioned "
            "one): fit to convergence, or pass damping"
        )
    return solved


def _newton_without_matrices(model, start, folds, gradients, damping):
    def solve(rows):
        products = hessian_products(model, start[rows], [folds[i] for i in rows])
        return krylov.solve(products, gradients[rows], damping=damping)

    parts = krylov.in_portions(solve, len(folds))
    return NewtonSteps(
        start - np.concatenate([p.x for p in parts]), np.concatenate([p.smallest for p in parts])
    )


def fold_chords(model, fit, folds):
    """All H(w_o) at the fit, factorised at once: what chord steps need; None without such a fast path.

    The object has `start` (n_folds, D), the Newton step's params, `smallest_eigenvalue` (n_folds,), as in
    `newton_params`, and for the folds numbered `rows`: `solve(vectors, rows)` by H(w_o) and
    `gradients(params, rows, accuracy)` without the objective, both (len(rows), D), exact up to a rounding error
    of `accuracy` >= 0 in standard errors if that helps, and `contraction(before, after)`, a
    bound (n,) on the factor by which a chord step between these params shrinks the decrement, inf if unknown.
    It may have `n_hessians`, how many Hessians it took; 1 where one factorisation serves all folds.
    """
    fast = _fast(model, "fold_chords")
    return fast and fast(fit, folds)


def fold_solutions(model, params, folds, tolerance):
    """Each fold's solution from params (n_folds, D) by the model's own solver; None without such a fast path.

    The object has the attributes of a `refine.Refinement` that `exact` reports.
    """
    fast = _fast(model, "fold_solutions")
    return fast and fast(params, folds, tolerance)


def equation_metric(model, params):
    """The metric (D, D) of an equation's `Fit`: H' (J J')^+ H at w = 1, the inverse of its sandwich covariance.

    A fast path may give another one, dense or sparse, where fewer sites than parameters leave the sandwich blind.
    """
    if fast := _fast(model, "equation_metric"):
        return fast(params)
    matrix = hessian(model, params, np.ones(model.n_sites))
    return matrix.T @ residual_precision(model, params) @ matrix


def residual_precision(model, params):
    """(J J')^+ of an estimating equation at params (D,), w = 1: the inverse variance of its residual, (D, D)."""
    cross = hessian_and_cross(model, params, np.ones(model.n_sites))[1]
    return np.linalg.pinv(cross @ cross.T, hermitian=True)


def kept_share(model, folds):
    """1 - m for each fold: the share of the curvature that stays in, (n_folds,); 1 where F is a mean (`normalised`)."""
    if getattr(model, "normalised", False):
        return np.ones(len(folds))
    n_observed = np.sum(getattr(model, "observed", np.ones(model.n_sites)))
    return 1.0 - sizes(folds) / n_observed


def cholesky(matrix):
    """A function solving matrix x = b; IndefiniteHessian where the matrix is not positive definite."""
    try:
        with blas_for(matrix.size * len(matrix)):
            factor = cho_factor(matrix)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise IndefiniteHessian(
            f"the Hessian's smallest eigenvalue is {smallest:.3g}: fit to convergence, check that the data "
            f"identify every parameter, or pass damping > {max(-smallest, 0.0):.3g}"
        ) from None
    return lambda b: cho_solve(factor, b)


def lu(matrix):
    """A function solving matrix x = b, for the Jacobian of an estimating equation."""
    factor = lu_factor(matrix)
    return lambda b: lu_solve(factor, b)


def solver(model, matrix, damping=0.0):
    """`cholesky` of a model's Hessian, `lu` of an equation's Jacobian, with damping added to the diagonal.

    A matrix that is no array solves by itself: `matrix.factorise(damping)` is a function as these two return.
    """
    if hasattr(matrix, "factorise"):
        return matrix.factorise(damping)
    damped = matrix + damping * np.eye(len(matrix))
    return lu(damped) if is_equation(model) else cholesky(damped)
