"""Every rung on the same folds."""

from .exact import exact
from .frozen_newton import frozen_newton
from .jackknife import infinitesimal_jackknife
from .newton_step import newton_step
from .no_adjustment import no_adjustment


def ladder(model, fit, folds):
    """All rungs by name, from the cheapest to exact: a dict of `CVResult`.

    `compare(*reversed(ladder(...).values()))` is the table of all of them against exact.
    """
    rungs = (no_adjustment, infinitesimal_jackknife, frozen_newton, newton_step, exact)
    return {rung.__name__: rung(model, fit, folds) for rung in rungs}
