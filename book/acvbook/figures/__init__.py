"""Figures: `(ax, results, …) → ax`.

Computes nothing; with `acvlib.plots`, all that imports matplotlib.
"""

from acvlib.plots import RUNGS, error_ladder, series

from .beyond import (
    bound_and_true,
    errors_by_price,
    errors_by_seconds,
    estimated_errors,
    influential_areas,
    phases,
    predicted_and_exact,
    search_progress,
)
from .epochs import bound_along, error_against, hidden_label_errors
from .files import save
from .general import both_panels, pair_differences
from .genomics import TIMES_ESTIMATES, by_df, changes
from .incremental import against_bound, cv_spread, running_time, running_times, stability
from .maps import METHODS, areas, losses_against, seconds_by_method
from .regression import (
    ESTIMATES,
    bound_and_actual,
    error_differences,
    estimates_against,
    norm_centres,
    rates,
    rung_errors_against,
)
from .sequences import losses_with_errors, seconds_by_model, shared_legend
from .states import by_difficulty
from .style import STYLE, differences, lines, lines_by_size, plt, scatter, subplots
