"""theta_o = theta_hat - H^-1 J (w_o - 1): one linear step in the weights, from w = 1."""

import numpy as np

from ..declared import NonNegative, declared
from ..folds import Folds
from ..model import Refits
from ..results import AFit, CVResult
from .run import Run


@declared
def infinitesimal_jackknife(fit: AFit, folds: Folds, damping: NonNegative = 0.0) -> CVResult:
    """Expand theta_hat(w) to first order about w = 1, and step to each fold's weights.

    H is that of the fit; a fold costs one product with J. `damping` is added to H's diagonal.

    Raises
    ------
    IndefiniteHessian : H + damping is not positive definite

    Source: Ghosh et al. (2020), Algorithms 1-4 and Eq. 14; Giordano et al. (2019).
    """
    run = Run("infinitesimal_jackknife", fit, folds)
    H = fit.hessian.damped(damping) if damping else fit.hessian

    def step(folds: Folds) -> Refits:
        moves = H.solve(run.derivatives.cross(fit.params, folds).T).T
        return Refits(np.subtract(fit.params, moves, out=moves))

    return run.finish(run.each(step).params, {"cross": 1})
