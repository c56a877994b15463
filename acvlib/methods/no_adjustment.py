"""theta_o = theta_hat: the bottom rung, which keeps the full fit and only scores the left-out sites."""

from .run import Run


def no_adjustment(model, fit, folds):
    """Each fold scored at the full fit's params: what any approximation must improve on."""
    run = Run("no_adjustment", model, fit, folds)
    return run.finish(run.start_params(), {})
