"""When not to trust a model's derivatives or a method: checked without refitting, and corrected."""

from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .derivatives import derivatives_of, is_equation, kept_share
from .methods.exact import exact
from .protocol import CVResult

STEP = 1e-5  # of the central differences: their error is then far below the tolerance


class Estimate(NamedTuple):
    """An estimate of the `loss` of full exact CV, with its standard error."""

    loss: float
    se: float
    n_exact: int


def flag(model: Any, result: CVResult, tolerance: float = 0.5) -> np.ndarray:
    """Which folds not to trust, (n_folds,) bool, at the price of one gradient a fold.

    A fold is flagged where its new params have a higher fold objective than the full fit, or where
    the gradient left over would, with the full fit's Hessian, still move them by more than
    `tolerance` standard errors. Of an estimating equation the objective is |r|^2 / 2.
    """
    derivatives = derivatives_of(model)
    before, _ = derivatives.fold_gradients(result.fit.params, result.folds)
    after, gradients = derivatives.fold_gradients(result.params, result.folds)
    share = kept_share(model, result.folds)
    move = result.fit.hessian.solve(gradients.T).T / share[:, None]
    left = result.fit.standard_errors_between(move, 0.0)
    return (after > before) | ~(left <= tolerance)


def refit_flagged(model: Any, result: CVResult, flagged: np.ndarray) -> CVResult:
    """Replace the flagged folds (n_folds,) of a result by exact refits; their cost is added.

    Raises
    ------
    ValueError : flags that are not one bool a fold
    """
    flagged = np.asarray(flagged)
    if flagged.dtype != bool or flagged.shape != (len(result.folds),):
        raise ValueError(
            f"flagged must be ({len(result.folds)},) bool, one a fold; "
            f"got {flagged.dtype} {flagged.shape}"
        )
    rows = np.flatnonzero(flagged)
    if not rows.size:
        return result
    refit = exact(model, result.fit, result.folds[rows])
    params = result.params.copy()
    params[rows] = refit.params
    losses = list(result.losses)
    for row, refitted in zip(rows, refit.losses, strict=True):
        losses[row] = refitted
    return replace(
        result,
        method=f"{result.method}, {rows.size} folds refitted",
        params=params,
        losses=losses,
        seconds=result.seconds + refit.seconds,
        evaluations=Counter(result.evaluations) + refit.evaluations,
        indefinite=None,
        diagnostics={},
    )


def difference_estimate(
    model: Any, result: CVResult, n_exact: int, rng: np.random.Generator
) -> Estimate:
    """Estimate full exact CV without bias from any method and `n_exact` random exact folds.

    `loss` of the method + mean of (exact - method) over the drawn folds, of their totals over the
    mean number of sites that a fold scores: the difference estimator of survey sampling, without
    replacement; its error comes from the differences alone.
    """
    n = len(result.folds)
    if not 2 <= n_exact <= n:
        raise ValueError(f"n_exact = {n_exact}: must be from 2 to the number of folds, {n}")
    drawn = rng.choice(n, n_exact, replace=False)
    refit = exact(model, result.fit, result.folds[drawn])
    scored = len(np.concatenate(result.folds.scored)) / n
    gaps = (refit.fold_totals - result.fold_totals[drawn]) / scored
    se = gaps.std(ddof=1) * np.sqrt((1 - n_exact / n) / n_exact)
    return Estimate(result.loss + gaps.mean(), float(se), n_exact)


def check_derivatives(
    model: Any, params: np.ndarray, rng: np.random.Generator, tolerance: float = 1e-4
) -> dict[str, float]:
    """Compare gradient, H and J of a model at params (D,) with central differences.

    Returns the relative errors by name, along random directions. Run it once on a model of your
    own: an operation with a wrong second derivative otherwise shows only as a fit that does not
    converge.

    Raises
    ------
    ValueError : names the errors above `tolerance`
    """
    weights = rng.uniform(0.5, 0.9, model.n_sites)  # off the corners: they may move both ways
    along = rng.standard_normal(len(params))
    sideways = rng.uniform(-1.0, 1.0, model.n_sites)
    errors = _derivative_errors(model, params, weights, along, sideways)
    wrong = {name: f"{error:.2g}" for name, error in errors.items() if not error <= tolerance}
    if wrong:
        disagree = "derivatives disagree with central differences"
        raise ValueError(f"{disagree} (relative errors {wrong}); see the docstring")
    return errors


def _derivative_errors(model, params, weights, along, sideways):
    """Relative errors by name of H and J, and of the gradient where there is an objective."""
    derivatives = derivatives_of(model)

    def moved(step):
        return derivatives.value_and_gradient(params + step * along, weights)

    def reweighted(step):
        return derivatives.value_and_gradient(params, weights + step * sideways)[1]

    hessian = np.asarray(derivatives.hessian(params, weights))
    cross = derivatives.cross_matrix(params, weights)
    errors = {
        "hessian": _relative(hessian @ along, lambda step: moved(step)[1]),
        "cross": _relative(cross @ sideways, reweighted),
    }
    if not is_equation(model):
        errors["gradient"] = _relative(moved(0.0)[1] @ along, lambda step: moved(step)[0])
    return errors


def _relative(derivative, function):
    """|derivative - central difference| / |central difference|."""
    difference = (np.asarray(function(STEP)) - np.asarray(function(-STEP))) / (2 * STEP)
    size = np.linalg.norm(difference) + 1e-12
    return float(np.linalg.norm(derivative - difference) / size)
