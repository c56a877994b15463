"""General approximate cross-validation as printed: Theorem 3.1, and Eqs. 10 and 11.

Source: Zhu and Liu (2021).
"""

from dataclasses import replace

from ..declared import NonNegative, declared
from ..folds import Folds
from ..model import Refits
from ..results import AFit, AResult, CVResult
from .run import Run


@declared
def as_printed(fit: AFit, folds: Folds, damping: NonNegative = 0.0) -> CVResult:
    """theta - H^-1 g(w_o), g the losses of the fold's sites over s - v and (p - v)^2.

    Theorem 3.1 holds these normalisers fixed, though they change with the fold. Its step therefore
    misses terms of first order in the share left out, which `infinitesimal_jackknife` has. For
    models with a method `printed_cross(params, folds)`: `SemiSupervised`, `PairwiseLinear`.

    Raises
    ------
    TypeError : a model for which the theorem prints nothing
    """
    if not hasattr(fit.model, "printed_cross"):
        name = type(fit.model).__name__
        raise TypeError(f"{name} has no printed_cross: Theorem 3.1 is not about it")
    run = Run("as_printed", fit, folds)
    H = fit.hessian.damped(damping)

    def step(folds: Folds) -> Refits:
        return Refits(fit.params - H.solve(fit.model.printed_cross(fit.params, folds).T).T)

    return run.finish(run.each(step).params, {"cross": 1})


@declared
def linearised(result: AResult) -> CVResult:
    """Expand a result's held-out losses to first order about the full fit: Eqs. 10 and 11.

    loss(theta_o) becomes loss(theta_hat) + dloss/dtheta (theta_o - theta_hat).
    """
    fit = result.fit
    pairs = zip(result.params - fit.params, result.folds, strict=True)
    losses = [fit.derivatives.heldout_expansion(fit.params, *pair) for pair in pairs]
    scored = result.folds.pick(losses)
    return replace(result, method=f"{result.method}, linearised", losses=scored)
