"""Every method on the same folds, and the baseline below them: theta_o = theta_hat."""

from collections.abc import Callable

import numpy as np

from ..declared import declared
from ..folds import Folds
from ..model import Refits
from ..results import AFit, CVResult, Fit
from .exact import exact
from .frozen_newton import frozen_newton
from .jackknife import infinitesimal_jackknife
from .newton_step import newton_step
from .run import Run


@declared
def no_adjustment(fit: AFit, folds: Folds) -> CVResult:
    """Score each fold at the full fit's params: what any approximation must improve on."""
    run = Run("no_adjustment", fit, folds)
    kept = run.each(lambda some: Refits(np.tile(fit.params, (len(some), 1))))
    one_point = not run.lost  # at which models score all folds together
    return run.finish(fit.params if one_point else kept.params, {})


METHODS: dict[str, Callable[..., CVResult]] = {
    method.__name__: method
    for method in (no_adjustment, infinitesimal_jackknife, frozen_newton, newton_step, exact)
}


def ladder(fit: Fit, folds: Folds) -> dict[str, CVResult]:
    """Run all methods, from the cheapest to exact: a `CVResult` for each name.

    `compare_methods(*reversed(ladder(...).values()))` is the table of all of them against exact.
    """
    return {name: method(fit, folds) for name, method in METHODS.items()}
