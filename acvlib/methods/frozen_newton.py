"""theta_o <- theta_o - [(1 - m) H]^-1 dF/dtheta(theta_o, w_o): chord steps, one H for all folds."""

import numpy as np

from ..checks import check_whole
from ..derivatives import kept_share
from ..folds import Folds
from ..model import Refits
from ..results import CVResult, Fit
from ..solvers.inverse import SameForAll
from .run import Run


def frozen_newton(
    fit: Fit,
    folds: Folds,
    steps: int = 1,
    rescale: bool = True,
    damping: float = 0.0,
) -> CVResult:
    """Newton's method on each fold's own objective with the full fit's Hessian, `steps` times.

    The gradient is the fold's own and exact, so that repeated steps converge to the exact refit. A
    fold that leaves out a share m has about 1 - m of the curvature; `rescale=False` keeps H itself,
    and then one step equals the infinitesimal jackknife wherever F is linear in the weights.

    Raises
    ------
    ValueError : steps < 1
    IndefiniteHessian : H + damping is not positive definite
    """
    steps = check_whole("steps", steps, 1)
    run = Run("frozen_newton", fit, folds, steps=steps, rescale=rescale, damping=damping)
    H = fit.hessian.damped(run.damping)

    def step(folds):
        share = kept_share(fit.model, folds) if rescale else np.ones(len(folds))
        hessians = SameForAll(H, share)
        params = fit.params
        for _ in range(steps):
            _, gradients = run.derivatives.fold_gradients(params, folds, values=False)
            params = params - hessians.solve(gradients)
        return Refits.at(params)

    return run.finish(run.each(step).params, {"gradient": steps * len(run.folds)})
