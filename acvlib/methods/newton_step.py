"""theta_o = theta_hat - H(w_o)^-1 dF/dtheta(theta_hat, w_o): one Newton step, a Hessian a fold."""

from typing import Any

import numpy as np

from ..folds import Folds
from ..protocol import CVResult, Fit
from ..solvers.inverse import by_portions
from .run import Run, warn_indefinite


def newton_step(model: Any, fit: Fit, folds: Folds, damping: float = 0.0) -> CVResult:
    """One Newton step on each fold's objective from the full fit.

    `indefinite` marks the folds whose H(w_o) + damping has negative curvature; they are kept, and
    warned of once.

    Source: Ghosh et al. (2020), Appendix H and I.
    """
    run = Run("newton_step", model, fit, folds, damping=damping)
    derivatives = run.derivatives
    indefinite = np.empty(len(run.folds), bool)

    def stepped(part):
        folds = run.folds[part]
        gradients, H = derivatives.fold_expansion(fit.params, folds, damping, fit.hessian)
        step = H.solve(gradients)
        indefinite[part] = H.indefinite
        return np.subtract(fit.params, step, out=step)  # fit.params - step, in its memory

    params = by_portions(stepped, derivatives.portions(run.folds, len(fit.params)))
    warn_indefinite(indefinite)
    counts = {"gradient": len(run.folds), "hessian": len(run.folds)}
    return run.finish(params, counts, indefinite)
