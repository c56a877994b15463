"""theta_o = theta_hat: the baseline, which keeps the full fit and scores the left-out sites."""

from typing import Any

from ..folds import Folds
from ..protocol import CVResult, Fit
from .run import Run


def no_adjustment(model: Any, fit: Fit, folds: Folds) -> CVResult:
    """Score each fold at the full fit's params: what any approximation must improve on."""
    run = Run("no_adjustment", model, fit, folds)
    return run.finish(fit.params, {})
