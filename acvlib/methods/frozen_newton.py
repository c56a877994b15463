"""theta_o <- theta_o - [(1 - m) H]^-1 dF/dtheta(theta_o, w_o): chord steps, one H for all folds."""

import numpy as np

from .. import derivatives as curvature
from .run import Run


def chord_steps(model, fit, folds, solve, share, steps):
    """Params (n_folds, D) after `steps` chord steps from the full fit; `solve` applies H^-1."""
    params = np.tile(fit.params, (len(folds), 1))
    for _ in range(steps):
        _, gradients = curvature.fold_gradients(model, params, folds)
        params = params - solve(gradients.T).T / share[:, None]
    return params


def frozen_newton(model, fit, folds, steps=1, rescale=True, damping=0.0):
    """Newton's method on each fold's own objective with the full fit's Hessian, `steps` times.

    The gradient is the fold's own and exact, so that repeated steps converge to the exact refit. A fold
    that leaves out a share m has about (1 - m) of the curvature; `rescale=False` keeps H itself, and then one
    step equals the infinitesimal jackknife wherever F is linear in the weights. Raises IndefiniteHessian.
    """
    run = Run("frozen_newton", model, fit, folds, steps=steps, rescale=rescale, damping=damping)
    solve = curvature.inverse_hessian(model, fit.params, damping)
    share = curvature.kept_share(model, run.folds) if rescale else np.ones(len(run.folds))
    params = chord_steps(model, fit, run.folds, solve, share, steps)
    return run.finish(params, {"hessian": 1, "gradient": steps * len(run.folds)})
