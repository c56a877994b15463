"""General approximate cross-validation as printed (Zhu and Liu 2021): Theorem 3.1, and Eqs. 10 and 11."""

from dataclasses import replace

from .. import derivatives as curvature
from .run import Run


def as_printed(model, fit, folds, damping=0.0):
    """theta - H^-1 g(w_o), g as Theorem 3.1 prints it: the losses of the fold's sites, over s - v and (p - v)^2.

    The theorem holds these normalisers fixed, though they change with the fold. Its step therefore misses terms of
    first order in the share left out; `infinitesimal_jackknife` of the same model has them. For models
    whose `fast` has `printed_cross`: `SemiSupervised`, `PairwiseLinear` and `neural.Siamese`.
    """
    run = Run("as_printed", model, fit, folds, damping=damping)
    solve = curvature.inverse_hessian(model, fit.params, damping)
    params = fit.params - solve(model.fast.printed_cross(fit.params, run.folds).T).T
    return run.finish(params, {"hessian_and_cross": 1})


def linearised(model, result):
    """A method's result with its held-out losses expanded to first order about the full fit: Eqs. 10 and 11.

    loss(theta_o) becomes loss(theta_hat) + dloss/dtheta (theta_o - theta_hat), in place of the loss at theta_o itself.
    """
    moves = result.params - result.fit.params
    pairs = zip(moves, result.folds, strict=True)
    pointwise = [
        curvature.heldout_expansion(model, result.fit.params, move, fold) for move, fold in pairs
    ]
    return replace(result, method=f"{result.method}, linearised", pointwise=pointwise)
