"""When not to trust a model's derivatives or a rung: checked without refitting, mended, corrected on average."""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from . import derivatives as curvature
from .methods.exact import exact

STEP = 1e-5  # of the central differences: their error is then far below the tolerance


class Estimate(NamedTuple):
    """An estimate of the mean fold loss of full exact CV, with its standard error."""

    loss: float
    se: float
    n_exact: int


def flag(model, result, tolerance=0.5):
    """Which folds not to trust, (n_folds,) bool, at the price of one gradient a fold.

    A fold is flagged where its new params have a higher fold objective than the full fit, or where the
    gradient left over would, with the full fit's Hessian, still move them by more than `tolerance` standard
    errors. Needs no refit. Of an estimating equation the objective is |r|^2 / 2.
    """
    before, _ = curvature.fold_gradients(
        model, np.tile(result.fit.params, (len(result.folds), 1)), result.folds
    )
    after, gradients = curvature.fold_gradients(model, result.params, result.folds)
    share = curvature.kept_share(model, result.folds)
    move = _full_solver(model, result.fit)(gradients.T).T / share[:, None]
    left = result.fit.standard_errors_between(move, 0.0)
    return (after > before) | ~(left <= tolerance)


def _full_solver(model, fit):
    """A function solving by H at the fit, which is its metric unless the model is an estimating equation."""
    if curvature.is_equation(model):
        return curvature.inverse_hessian(model, fit.params)
    return getattr(fit.metric, "solve", lambda b: np.linalg.solve(fit.metric, b))


def mend(model, result, flagged):
    """`result` with its flagged folds (n_folds,) bool replaced by exact refits; their cost is added."""
    rows = np.flatnonzero(flagged)
    if not rows.size:
        return result
    refit = exact(model, result.fit, [result.folds[i] for i in rows])
    params, pointwise = result.params.copy(), list(result.pointwise)
    params[rows] = refit.params
    for row, losses in zip(rows, refit.pointwise, strict=True):
        pointwise[row] = losses
    return replace(
        result,
        method=f"{result.method}, {rows.size} folds mended",
        params=params,
        pointwise=pointwise,
        seconds=result.seconds + refit.seconds,
        evaluations=Counter(result.evaluations) + refit.evaluations,
        diagnostics={},
    )


def difference_estimate(model, result, n_exact, rng):
    """An unbiased estimate of full exact CV from any rung and `n_exact` exact folds drawn at random.

    mean of the rung over all folds + mean of (exact - rung) over the drawn folds: the difference estimator
    of survey sampling, drawn without replacement; its error comes from the differences alone.
    """
    n = len(result.folds)
    if not 2 <= n_exact <= n:
        raise ValueError(f"n_exact = {n_exact}: must be from 2 to the number of folds, {n}")
    drawn = rng.choice(n, n_exact, replace=False)
    refit = exact(model, result.fit, [result.folds[i] for i in drawn])
    gaps = refit.fold_losses - result.fold_losses[drawn]
    se = gaps.std(ddof=1) * np.sqrt((1 - n_exact / n) / n_exact)
    return Estimate(result.loss + gaps.mean(), float(se), n_exact)


def check_derivatives(model, params, rng, tolerance=1e-4):
    """Compares gradient, H and J of a model at params (D,) with central differences along random directions.

    Returns the relative errors by name; ValueError names those above `tolerance`. Run it once on a model of
    your own: an operation with a wrong second derivative otherwise shows only as a fit that will not converge.
    """
    weights = rng.uniform(
        0.5, 0.9, model.n_sites
    )  # off the corners, so that weights may move both ways
    along, sideways = rng.standard_normal(len(params)), rng.uniform(-1.0, 1.0, model.n_sites)
    hessian, cross = curvature.hessian_and_cross(model, params, weights)
    value, gradient = zip(
        *(_at(model, params + h * along, weights) for h in (STEP, -STEP)), strict=True
    )
    _, by_weight = zip(
        *(_at(model, params, weights + h * sideways) for h in (STEP, -STEP)), strict=True
    )
    errors = {
        "hessian": _relative(hessian @ along, gradient),
        "cross": _relative(cross @ sideways, by_weight),
    }
    if not curvature.is_equation(model):
        errors["gradient"] = _relative(_at(model, params, weights)[1] @ along, value)
    wrong = {name: f"{error:.2g}" for name, error in errors.items() if not error <= tolerance}
    if wrong:
        raise ValueError(
            f"derivatives disagree with central differences (relative errors {wrong}); see the docstring"
        )
    return errors


def _at(model, params, weights):
    return curvature.value_and_gradient(model, params, weights)


def _relative(derivative, ends):
    difference = (np.asarray(ends[0]) - np.asarray(ends[1])) / (2 * STEP)
    return float(np.linalg.norm(derivative - difference) / (np.linalg.norm(difference) + 1e-12))
