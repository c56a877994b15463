"""theta_o = theta_hat - H(w_o)^-1 dF/dtheta(theta_hat, w_o): one Newton step, a Hessian a fold."""

import numpy as np

from ..checks import warn
from ..declared import NonNegative, declared
from ..folds import Folds
from ..model import Refits
from ..results import AFit, CVResult
from .run import Run


class IndefiniteFold(UserWarning):
    """Some folds have an indefinite Hessian: their Newton step need not descend."""


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
            expansion = fit.params, folds[part], damping, fit.hessian
            gradients, H = derivatives.fold_expansion(*expansion)
            ends.append(H.step_from(fit.params, gradients))  # fit.params - H^-1 gradients
            indefinite.append(H.indefinite)
        params = ends[0] if len(ends) == 1 else np.concatenate(ends)
        return Refits(params, indefinite=np.concatenate(indefinite))

    refits = run.each(step)
    n_folds = len(run.folds)
    if refits.indefinite.any():
        count = f"{refits.indefinite.sum()} of {n_folds} folds have an indefinite Hessian"
        first = f"(first: fold {np.argmax(refits.indefinite)})"
        warn(f"{count} {first}: use exact() for them, or pass damping", IndefiniteFold)
    counts = {"gradient": n_folds, "hessian": n_folds}
    return run.finish(refits.params, counts, refits.indefinite)
