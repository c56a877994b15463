"""Fitting a weighted model with all its data: L-BFGS, then Newton steps to the optimum; these alone if it is convex."""

import warnings

import numpy as np
from scipy.optimize import minimize

from . import derivatives as curvature
from .folds import WHOLE
from .protocol import Fit
from .solvers.newton import MAX_STEPS, SLACK, refine
from .solvers.newton_cg import below_saddle, newton_cg

TOLERANCE = 1e-6  # of the Newton decrement, in standard errors
MAX_SADDLES = 20  # that a fit leaves


class UnconvergedFit(UserWarning):
    """A method was handed parameters that are not at an optimum, or a fit did not reach one."""


def newton_decrement(gradient, hessian):
    """sqrt(g' H^-1 g): the distance to the optimum in standard errors; inf where H is indefinite."""
    if np.linalg.eigvalsh(hessian)[0] <= 0.0:
        return float("inf")
    return float(np.sqrt(gradient @ np.linalg.solve(hessian, gradient)))


def _decrement_and_metric(model, params, weights, gradient):
    """The metric is H for an objective; the decrement is the length of the Newton step in it."""
    if curvature.is_matrix_free(model):
        return _decrement_and_operator(model, params, gradient)
    if not curvature.is_equation(model):
        hessian = curvature.hessian(model, params, weights)
        return newton_decrement(gradient, hessian), hessian
    metric, hessian = (
        curvature.equation_metric(model, params),
        curvature.hessian(model, params, weights),
    )
    step = curvature.solver(model, hessian)(gradient)
    return float(np.sqrt(step @ (metric @ step))), metric


def _decrement_and_operator(model, params, gradient):
    """Looks for negative curvature from a random vector too, as a vanishing gradient need not have any of it."""
    operator, probe = (
        curvature.hessian_operator(model, params),
        np.random.default_rng(0).standard_normal(len(params)),
    )
    solved = operator.solutions(np.array([gradient, probe]))
    if solved.smallest.min() <= 0.0:
        return float("inf"), operator
    return float(np.sqrt(max(gradient @ solved.x[0], 0.0))), operator


def fit_at(model, params, iterates=()):
    """The `Fit` that describes a model at any params (D,), optimal or not."""
    params, weights = np.asarray(params, float), np.ones(model.n_sites)
    value, gradient = curvature.value_and_gradient(model, params, weights)
    decrement, metric = _decrement_and_metric(model, params, weights, gradient)
    return Fit(params, value, float(np.linalg.norm(gradient)), decrement, metric, tuple(iterates))


def fit(model, start=None, rng=None, tolerance=TOLERANCE):
    """argmin F(params, 1): L-BFGS, unless F is convex, then Newton steps until the decrement is at most `tolerance`.

    start (D,): defaults to model.initial_params(rng); given to a matrix-free model, it is where Newton's method
    starts, without L-BFGS. Warns `UnconvergedFit` where the tolerance is not reached, for instance at a saddle; the
    returned `newton_decrement` then says how far off it is. Raises what the model's `check_optimum` raises.
    """
    near = curvature.is_equation(model) or (start is not None and curvature.is_matrix_free(model))
    start = np.asarray(model.initial_params(rng) if start is None else start, float)
    if getattr(model, "convex", False):
        result = _newton(model, start, tolerance)
    else:
        result = _polish(model, [start] if near else _lbfgs(model, start), tolerance)
    if check := getattr(model, "check_optimum", None):
        check(result.params)
    warn_unconverged(result, tolerance, "fit")
    return result


def _polish(model, iterates, tolerance):
    """Newton steps from the last of the iterates."""
    if curvature.is_matrix_free(model):
        return _polish_without_matrices(model, iterates, tolerance)
    optimum = refine(model, iterates[-1][None], WHOLE, tolerance).params
    if curvature.is_equation(
        model
    ):  # again, as far from the solution large residuals make errors look small
        optimum = refine(model, optimum, WHOLE, tolerance).params
    return fit_at(model, optimum[0], [*iterates, optimum[0]])


def _polish_without_matrices(model, iterates, tolerance):
    """As `_polish`; from each saddle that Newton's method ends at on to a lower point."""
    path, start = list(iterates), iterates[-1]
    for _ in range(MAX_SADDLES):
        path.append(newton_cg(model, start[None], WHOLE, tolerance).params[0])
        found = fit_at(model, path[-1], path)
        start = below_saddle(model, path[-1]) if np.isinf(found.newton_decrement) else None
        if start is None:
            break
    return found


def _newton(model, params, tolerance):
    """Newton's method for a convex F; its last Hessian is that of the optimum."""
    iterates, weights, hessian = [params], np.ones(model.n_sites), None
    value, gradient = curvature.value_and_gradient(model, params, weights)
    for _ in range(MAX_STEPS):
        try:
            if hessian is None or not getattr(model, "quadratic", False):
                hessian = curvature.hessian(model, params, weights)
            move = -curvature.cholesky(hessian)(gradient)
        except (
            curvature.IndefiniteHessian
        ):  # flat in some direction: the optimum may be at infinity
            return fit_at(model, params, iterates)
        decrement = np.sqrt(-gradient @ move)
        if decrement <= tolerance:
            break
        params, value, gradient = _descend(model, params, value, move)
        iterates.append(params)
    return Fit(
        params, value, float(np.linalg.norm(gradient)), float(decrement), hessian, tuple(iterates)
    )


def _descend(model, params, value, move):
    """(params, F, gradient) after the longest of the moves move, move / 2, move / 4, ... that does not ascend."""
    for scale in 0.5 ** np.arange(MAX_STEPS):
        trial = params + scale * move
        lower, gradient = curvature.value_and_gradient(model, trial, np.ones(model.n_sites))
        if lower <= value + SLACK * (1.0 + abs(value)):
            break
    return trial, lower, gradient


def fit_path(model, start=None, rng=None):
    """The iterates of L-BFGS from the start on, for the study of inexact optima: a list of (D,) params."""
    return _lbfgs(model, np.asarray(model.initial_params(rng) if start is None else start, float))


def _lbfgs(model, start):
    iterates, weights = [start], np.ones(model.n_sites)
    minimize(
        lambda p: curvature.value_and_gradient(model, p, weights),
        start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda p: iterates.append(p.copy()),
        options={"maxiter": 1000},
    )
    return iterates


def warn_unconverged(result, tolerance, who, stacklevel=3):
    """Says once that `who` starts from, or ended at, a point that is no optimum; it is allowed."""
    if not result.newton_decrement <= tolerance:
        message = f"{who}: Newton decrement {result.newton_decrement:.3g} is above {tolerance:.0e}"
        warnings.warn(
            f"{message}: the point is not an optimum", UnconvergedFit, stacklevel=stacklevel
        )
