"""theta_o = theta_hat - H(w_o)^-1 dF/dtheta(theta_hat, w_o): one Newton step, a Hessian a fold."""

import numpy as np

from ..folds import Folds
from ..model import Refits
from ..results import CVResult, Fit
from .run import Run, warn_indefinite


def newton_step(fit: Fit, folds: Folds, damping: float = 0.0) -> CVResult:
    """One Newton step on each fold's objective from the full fit.

    `indefinite` marks the folds whose H(w_o) + damping has negative curvature; they are kept, and
    warned of once. Hessians are in memory a portion of the folds at a time, at most a quarter of a
    gigabyte, or one.

    Source: Ghosh et al. (2020), Appendix H and I.
    """
    run = Run("newton_step", fit, folds, damping=damping)
    derivatives = run.derivatives

    def step(folds):
        ends = []
        indefinite = []
        for part in derivatives.portions(folds, len(fit.params)):
            expansion = fit.params, folds[part], run.damping, fit.hessian
            gradients, H = derivatives.fold_expansion(*expansion)
            ends.append(H.step_from(fit.params, gradients))  # fit.params - H^-1 gradients
            indefinite.append(H.indefinite)
        found = Refits.at(ends[0] if len(ends) == 1 else np.concatenate(ends))
        found.indefinite[:] = np.concatenate(indefinite)
        return found

    found = run.each(step)
    warn_indefinite(found.indefinite)
    counts = {"gradient": len(run.folds), "hessian": len(run.folds)}
    return run.finish(found.params, counts, found.indefinite)
