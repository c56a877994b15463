"""theta_o = theta_hat - H(w_o)^-1 dF/dtheta(theta_hat, w_o): one Newton step, a Hessian for every fold."""

import warnings

import numpy as np

from .. import derivatives as curvature
from .run import Run


class IndefiniteFold(UserWarning):
    """Some folds have an indefinite Hessian at the full fit: their Newton step need not descend."""


def newton_step(model, fit, folds, damping=0.0):
    """One Newton step on each fold's objective from the full fit (Ghosh et al. 2020, Appendix H and I).

    diagnostics: smallest_eigenvalue of H(w_o) + damping, or a lower bound of the same sign (nan for estimating
    equations). Folds where it is not positive are kept, marked by it, and warned of once.
    """
    run = Run("newton_step", model, fit, folds, damping=damping)
    steps = curvature.newton_params(model, fit, run.folds, damping)
    _warn_indefinite(steps.smallest_eigenvalue)
    counts = {"gradient": len(run.folds), "hessian": len(run.folds)}
    return run.finish(
        steps.params, counts, steps.heldout, smallest_eigenvalue=steps.smallest_eigenvalue
    )


def _warn_indefinite(smallest):
    if (smallest <= 0.0).any():
        message = f"{(smallest <= 0).sum()} of {len(smallest)} folds have an indefinite Hessian (first: fold "
        remedy = "): use exact() for them, or pass damping"
        warnings.warn(f"{message}{np.argmax(smallest <= 0)}{remedy}", IndefiniteFold, stacklevel=3)
