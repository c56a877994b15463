"""theta_o = theta_hat - H(w_o)^-1 dF/dtheta(theta_hat, w_o): one Newton step, a Hessian a fold."""

import numpy as np

from ..folds import Folds
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
    indefinite = np.empty(len(run.folds), bool)
    parts = []
    for part in derivatives.portions(run.folds, len(fit.params)):
        own = run.folds[part]
        gradients, H = derivatives.fold_expansion(fit.params, own, run.damping, fit.hessian)
        parts.append(H.step_from(fit.params, gradients))  # fit.params - H^-1 gradients
        indefinite[part] = H.indefinite
    warn_indefinite(indefinite)
    counts = {"gradient": len(run.folds), "hessian": len(run.folds)}
    params = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return run.finish(params, counts, indefinite)
