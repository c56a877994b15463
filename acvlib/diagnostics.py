"""When not to trust a rung: fold by fold without refitting, mended by exact refits, corrected on average."""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from . import curvature
from .exact import exact


class Estimate(NamedTuple):
    """An estimate of the mean fold loss of full exact CV, with its standard error."""

    loss: float
    se: float
    n_exact: int


def flag(model, result, tolerance=0.5):
    """Which folds not to trust, (n_folds,) bool, at the price of one gradient a fold.

    A fold is flagged where its new params have a higher fold objective than the full fit, or where the
    gradient left over, measured by the full fit's metric, is still worth more than `tolerance` standard
    errors. Needs no refit.
    """
    before, _ = curvature.fold_gradients(model, np.tile(result.fit.params, (len(result.folds), 1)), result.folds)
    after, gradients = curvature.fold_gradients(model, result.params, result.folds)
    share = curvature.kept_share(model, result.folds)
    move = np.linalg.solve(result.fit.metric, gradients.T).T / share[:, None]
    left = result.fit.standard_errors_between(move, 0.0)
    return (after > before) | ~(left <= tolerance)


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
