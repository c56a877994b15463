"""Figures: `(ax, results, …) → ax`.

Computes nothing; with `acvlib.plots`, all that imports matplotlib.
"""

from acvlib.plots import RUNGS, error_ladder, series

from .certified import bound_and_true, certified_by, objective_and_bound
from .epochs import bound_along, error_against, hidden_label_errors, probabilities, training_losses
from .files import save
from .future import errors_by_price, moving_params
from .general import (
    both_panels,
    criteria,
    pair_differences,
    predicted_losses,
    seconds_by_folds,
)
from .genomics import TIMES_ESTIMATES, by_df, changes, gene_cluster, stage_ladder
from .incremental import against_bound, cv_spread, running_time, running_times, stability
from .influence import influential_areas, predicted_and_exact
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
from .self_check import estimated_errors
from .sequences import channels, losses_with_errors, rung_scatter, seconds_by_model, shared_legend
from .states import by_difficulty, directions, price
from .style import STYLE, differences, lines, lines_by_size, plt, scatter, subplots
from .tuning import chosen_on_test, loss_with_slopes, search_progress
