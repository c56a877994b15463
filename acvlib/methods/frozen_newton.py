"""theta_o <- theta_o - [(1 - m) H]^-1 dF/dtheta(theta_o, w_o): chord steps, one H for all folds."""

import numpy as np

from ..declared import Count, Flag, NonNegative, declared
from ..derivatives import kept_share
from ..folds import Folds
from ..model import Refits
from ..results import AFit, CVResult
from ..solvers.inverse import SameForAll
from .run import Run


@declared
def frozen_newton(
    fit: AFit, folds: Folds, steps: Count = 1, rescale: Flag = True, damping: NonNegative = 0.0
) -> CVResult:
    """Newton's method on each fold's own objective with the full fit's Hessian, `steps` times.

    The gradient is the fold's own and exact, so that repeated steps converge to the exact refit. A
    fold that leaves out a share m has about 1 - m of the curvature; `rescale=False` keeps H itself,
    and then one step equals the infinitesimal jackknife wherever F is linear in the weights.

    Raises
    ------
    IndefiniteHessian : H + damping is not positive definite
    """
    run = Run("frozen_newton", fit, folds)
    H = fit.hessian.damped(damping)

    def step(folds: Folds) -> Refits:
        share = kept_share(fit.model, folds) if rescale else np.ones(len(folds))
        hessians = SameForAll(H, share)
        params = fit.params
        for _ in range(steps):
            _, gradients = run.derivatives.fold_gradients(params, folds, values=False)
            params = params - hessians.solve(gradients)
        return Refits(params)

    return run.finish(run.each(step).params, {"gradient": steps * len(run.folds)})
