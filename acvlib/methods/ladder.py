"""Every method, from the baseline to exact, and two as they are printed; each is its equation.

no_adjustment            theta_o = theta_hat
infinitesimal_jackknife  theta_o = theta_hat - H^-1 J (w_o - 1)
frozen_newton            theta_o <- theta_o - [(1 - m) H]^-1 dF/dtheta(theta_o, w_o)
newton_step              theta_o = theta_hat - H(w_o)^-1 dF/dtheta(theta_hat, w_o)
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import warn
from ..declared import Count, Flag, NonNegative, declared
from ..derivatives import kept_share
from ..folds import Folds
from ..model import Refits
from ..results import AFit, AResult, CVResult, Fit, Run
from .exact import exact

SHARE = 1e-3  # of a move, by which held-out losses are differenced


class IndefiniteFold(UserWarning):
    """Some folds have an indefinite Hessian: their Newton step need not descend."""


@declared
def no_adjustment(fit: AFit, folds: Folds) -> CVResult:
    """Score each fold at the full fit's params: what any approximation must improve on."""
    run = Run("no_adjustment", fit, folds)
    kept = run.each(lambda some: Refits(np.tile(fit.params, (len(some), 1))))
    one_point = not run.lost  # at which models score all folds together
    return run.finish(fit.params if one_point else kept.params, {})


@declared
def infinitesimal_jackknife(fit: AFit, folds: Folds, damping: NonNegative = 0.0) -> CVResult:
    """Expand theta_hat(w) to first order about w = 1, and step to each fold's weights.

    H is that of the fit; a fold costs one product with J. `damping` is added to H's diagonal.

    Raises IndefiniteHessian: H + damping is not positive definite.

    Source: Ghosh et al. (2020), Algorithms 1-4 and Eq. 14; Giordano et al. (2019).
    """
    return _from_fit("infinitesimal_jackknife", fit, folds, damping, fit.derivatives.cross)


@declared
def as_printed(fit: AFit, folds: Folds, damping: NonNegative = 0.0) -> CVResult:
    """theta - H^-1 g(w_o), g the losses of the fold's sites over s - v and (p - v)^2.

    Theorem 3.1 holds these normalisers fixed, though they change with the fold. Its step therefore
    misses terms of first order in the share left out, which `infinitesimal_jackknife` has. For
    models with a method `printed_cross(params, folds)`: `SemiSupervised`, `PairwiseLinear`.

    Raises TypeError: a model for which the theorem prints nothing.

    Source: Zhu and Liu (2021).
    """
    if not hasattr(fit.model, "printed_cross"):
        name = type(fit.model).__name__
        raise TypeError(f"{name} has no printed_cross: Theorem 3.1 is not about it")
    return _from_fit("as_printed", fit, folds, damping, fit.model.printed_cross)


def _from_fit(name: str, fit: Fit, folds: Any, damping: float, changes: Callable) -> CVResult:
    """theta_hat - H^-1 changes(theta_hat, folds)."""
    run = Run(name, fit, folds)
    H = fit.hessian.damped(damping) if damping else fit.hessian

    def step(folds: Folds) -> Refits:
        moves = H.solve(changes(fit.params, folds).T).T
        return Refits(np.subtract(fit.params, moves, out=moves))

    return run.finish(run.each(step).params, {"cross": 1})


@declared
def frozen_newton(
    fit: AFit, folds: Folds, steps: Count = 1, rescale: Flag = True, damping: NonNegative = 0.0
) -> CVResult:
    """Newton's method on each fold's own objective with the full fit's Hessian, `steps` times.

    The gradient is the fold's own and exact, so that repeated steps, where they converge, do so to
    the exact refit; where the fold's Hessian is far from H they may leave it again. A fold that
    leaves out a share m has about 1 - m of the curvature; `rescale=False` keeps H itself, and then
    one step equals the infinitesimal jackknife wherever F is linear in the weights.

    Raises IndefiniteHessian: H + damping is not positive definite.
    """
    run = Run("frozen_newton", fit, folds)
    H = fit.hessian.damped(damping)

    def step(folds: Folds) -> Refits:
        share = kept_share(fit.model, folds)[:, None] if rescale else 1.0
        params = fit.params
        for _ in range(steps):
            _, gradients = run.derivatives.fold_gradients(params, folds, values=False)
            params = params - H.solve(gradients.T).T / share
        return Refits(params)

    return run.finish(run.each(step).params, {"gradient": steps * len(run.folds)})


@declared
def newton_step(fit: AFit, folds: Folds, damping: NonNegative = 0.0) -> CVResult:
    """One Newton step on each fold's objective from the full fit.

    `indefinite` marks the folds whose H(w_o) + damping has negative curvature; they are kept, and
    warned of once. Hessians are in memory a portion of the folds at a time, at most a quarter of a
    gigabyte, or one.

    Source: Ghosh et al. (2020), Appendix H and I.
    """
    run = Run("newton_step", fit, folds)
    derivatives = run.derivatives

    def step(folds: Folds) -> Refits:
        ends = []
        indefinite = []
        for part in derivatives.portions(folds, len(fit.params)):
            H = derivatives.fold_hessians(fit.params, folds[part], damping, fit.hessian)
            ends.append(H.newton_ends(derivatives, fit.params, folds[part]))
            indefinite.append(H.indefinite)
        params = ends[0] if len(ends) == 1 else np.concatenate(ends)
        return Refits(params, indefinite=np.concatenate(indefinite))

    refits = run.each(step)
    n_folds = len(run.folds)
    if refits.indefinite.any():
        count = f"{refits.indefinite.sum()} of {n_folds} folds have an indefinite Hessian"
        first = f"(first: {run.folds.name(np.argmax(refits.indefinite))})"
        warn(f"{count} {first}: use exact() for them, or pass damping", IndefiniteFold)
    counts = {"gradient": n_folds, "hessian": n_folds}
    return run.finish(refits.params, counts, refits.indefinite)


@declared
def linearised(result: AResult) -> CVResult:
    """Expand a result's held-out losses to first order about the full fit.

    loss(theta_o) becomes loss(theta_hat) + dloss/dtheta (theta_o - theta_hat), by differences of
    fourth order: autograd need not follow a held-out loss.

    Source: Zhu and Liu (2021), Eqs. 10 and 11.
    """
    fit = result.fit
    moves = SHARE * (result.params - fit.params)
    steps = [fit.params + times * moves for times in (0.0, 1.0, -1.0, 2.0, -2.0)]
    losses = [np.concatenate(fit.derivatives.heldout(step, result.folds)) for step in steps]
    here, ahead, behind, far_ahead, far_behind = losses
    expanded = here + (8 * (ahead - behind) - (far_ahead - far_behind)) / (12 * SHARE)
    scored = result.folds.split(expanded)
    return replace(result, method=f"{result.method}, linearised", losses=scored)


METHODS: dict[str, Callable[..., CVResult]] = {
    method.__name__: method
    for method in (no_adjustment, infinitesimal_jackknife, frozen_newton, newton_step, exact)
}


def ladder(fit: Fit, folds: Folds) -> dict[str, CVResult]:
    """Run all methods, from the cheapest to exact: a `CVResult` for each name.

    `compare_methods(*reversed(ladder(...).values()))` is the table of all of them against exact.
    Before you run it: folds of N / 100 sites of a logistic regression with N / 50 parameters lose
    less than 5 % of what cross-validation corrects by the jackknife; folds of N / 10 sites by a
    frozen step, and with N / 10 parameters by a Newton step (the book, chapter 17).
    """
    return {name: method(fit, folds) for name, method in METHODS.items()}
