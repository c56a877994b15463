"""theta_o = theta_hat - H^-1 J (w_o - 1): one linear step in the weights, H and J taken at theta_hat, w = 1."""

from .. import derivatives as curvature
from .run import Run


def infinitesimal_jackknife(model, fit, folds, damping=0.0):
    """The first-order Taylor expansion of theta_hat(w) about w = 1 (Ghosh et al. 2020, Algorithms 1-4, Eq. 14).

    H and J are computed once; a fold costs one product. `damping` is added to H's diagonal. Raises
    IndefiniteHessian where H + damping is not positive definite.
    """
    run = Run("infinitesimal_jackknife", model, fit, folds, damping=damping)
    params = curvature.jackknife_params(model, fit, run.folds, damping)
    return run.finish(params, {"hessian_and_cross": 1})
