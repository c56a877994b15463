"""Figures: `(ax, results, …) → ax`.

Computes nothing; with `acvlib.plots`, all that imports matplotlib.
"""

from acvlib.plots import RUNGS, error_ladder, series

from .beyond import (
    bound_and_true,
    by_difficulty,
    errors_by_price,
    errors_by_seconds,
    estimated_errors,
    influential_areas,
    phases,
    predicted_and_exact,
    search_progress,
)
from .incremental import against_bound, cv_spread, running_times, stability
from .maps import METHODS, areas, losses_against, seconds_by_method
from .regression import (
    ESTIMATES,
    TIMES_ESTIMATES,
    bound_and_actual,
    by_df,
    changes,
    error_differences,
    norm_centres,
    rates,
    rung_errors_against,
)
from .sequences import (
    bound_along,
    error_against,
    hidden_label_errors,
    losses_with_errors,
    seconds_by_model,
)
from .style import (
    STYLE,
    both_panels,
    by_size,
    differences,
    lines,
    lines_by_size,
    pair_differences,
    plain_ticks,
    plt,
    save,
    scatter,
    subplots,
)
