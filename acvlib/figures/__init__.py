"""Figures: `(ax, results, …) → ax`. Computes nothing; the only package that imports matplotlib."""

from .incremental import (
    against_bound,
    cv_spread,
    running_time,
    running_times,
)
from .maps import (
    METHODS,
    areas,
    losses_against,
    seconds_by_method,
)
from .regression import (
    ESTIMATES,
    authors_estimates,
    bound_and_actual,
    error_differences,
    estimates_against,
    norm_centres,
    rates,
)
from .rungs import (
    RUNGS,
    differences,
    error_ladder,
    lines_by_rung,
    published,
    scatter,
    series,
)
from .style import (
    STYLE,
    plt,
    save,
    subplots,
)

__all__ = [
    "STYLE",
    "plt",
    "subplots",
    "save",
    "RUNGS",
    "series",
    "scatter",
    "differences",
    "error_ladder",
    "lines_by_rung",
    "published",
    "METHODS",
    "areas",
    "seconds_by_method",
    "losses_against",
    "ESTIMATES",
    "error_differences",
    "estimates_against",
    "authors_estimates",
    "bound_and_actual",
    "rates",
    "norm_centres",
    "cv_spread",
    "running_times",
    "running_time",
    "against_bound",
]
