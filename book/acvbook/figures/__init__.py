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
    error_rates,
    pair_differences,
    predicted_losses,
    seconds_by_folds,
)
from .genomics import TIMES_ESTIMATES, by_df, changes, gene_cluster, gene_curve, stage_ladder
from .incremental import against_bound, cv_spread, running_time, running_times, stability
from .influence import influential_areas, predicted_and_exact
from .maps import METHODS, areas, losses_against, seconds_by_method
from .regression import (
    ESTIMATES,
    authors_estimates,
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
from .style import STYLE, differences, lines_by_rung, plt, published, scatter, subplots
from .traffic import spread_by_setting
from .tuning import chosen_on_test, loss_with_slopes, search_progress

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
    "estimated_errors",
    "errors_by_price",
    "influential_areas",
    "chosen_on_test",
    "loss_with_slopes",
    "search_progress",
    "moving_params",
    "predicted_and_exact",
    "by_difficulty",
    "directions",
    "price",
    "objective_and_bound",
    "bound_and_true",
    "certified_by",
    "probabilities",
    "error_against",
    "bound_along",
    "hidden_label_errors",
    "training_losses",
    "both_panels",
    "criteria",
    "error_rates",
    "pair_differences",
    "predicted_losses",
    "seconds_by_folds",
    "METHODS",
    "TIMES_ESTIMATES",
    "by_df",
    "changes",
    "gene_cluster",
    "gene_curve",
    "stage_ladder",
    "areas",
    "seconds_by_method",
    "losses_against",
    "ESTIMATES",
    "error_differences",
    "estimates_against",
    "authors_estimates",
    "bound_and_actual",
    "rates",
    "rung_errors_against",
    "norm_centres",
    "cv_spread",
    "running_times",
    "stability",
    "running_time",
    "against_bound",
    "channels",
    "rung_scatter",
    "losses_with_errors",
    "seconds_by_model",
    "shared_legend",
    "spread_by_setting",
]
