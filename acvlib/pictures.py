"""A picture of models side by side: what `choose` and `compare_models` say of them."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from .checks import check_kind
from .compare import compare_models, data_difference
from .results import CVResult


def compare(ax: Any, models: Any) -> Any:
    """Plot the held-out loss of each model with standard errors, the best on top.

    models: what `choose` returns, results by name, or a table of `compare_models`, whose order
    stays. Thin bars are se, of the loss; thick ones dse, of its difference from the best, by which
    to decide. The mark of a model with unreliable folds is hollow; below its name stand how many
    they are, whether it is the simplest within one standard error, was rejected or has no loss.
    Losses are sums over sites, -elpd; where a model has none, differences from the best.

    Raises ValueError: results of different folds or data, or none with a loss.
    """
    table, others, notes = _compared(models)
    columns = ("elpd", "elpd_diff", "se", "dse")
    elpd, gap, se, dse = (table[name].to_numpy(float) for name in columns)
    is_density = np.isfinite(elpd).all()
    losses = -elpd if is_density else gap
    rows = np.arange(len(table))
    ax.errorbar(losses, rows, xerr=se, fmt="none", ecolor="#999999", label="se")
    thick = {"ecolor": "black", "elinewidth": 3, "label": "dse, from the best"}
    ax.errorbar(losses, rows, xerr=dse, fmt="none", **thick)
    for row, name in enumerate(table.index):
        is_sure = not any("unreliable" in note for note in notes[name])
        ax.plot(losses[row], row, "o", color="black", fillstyle="full" if is_sure else "none")
    ax.axvline((losses - gap)[0], ls=":", lw=1, color="black")
    names = ["\n".join([str(name), *notes[name]]) for name in [*table.index, *others]]
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("held-out loss" if is_density else "held-out loss above that of the best")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)
    return ax


def _compared(models):
    """(table of `compare_models`, names of models that are not in it, {name: what to say})."""
    notes = defaultdict(list)
    if hasattr(models, "elpd_diff"):
        table, results, lost = models, {}, []
    else:
        results = getattr(models, "results", models)
        lost = _without_loss(results)
        table = getattr(models, "table", None)
        rated = {name: result for name, result in results.items() if name not in lost}
        if table is None and rated:
            table = compare_models(rated)
    if table is None or not len(table):
        raise ValueError(f"no model has a finite loss, of {lost}: there is nothing to draw")
    for name in lost:
        notes[name].append("no loss")
    for name, result in results.items():
        if result._is_unreliable.any():
            unreliable = result._is_unreliable
            notes[name].append(f"{unreliable.sum()} of {len(unreliable)} folds unreliable")
    if hasattr(models, "simplest"):
        notes[models.simplest].append("simplest within one standard error")
    for name, _ in getattr(models, "rejected", ()):
        notes[name].append("rejected")
        lost.append(name)
    return table, lost, notes


def _without_loss(results):
    """The names of results whose loss is not finite; raises unless all can be compared."""
    remedy = ": give what choose or compare_models returns, or {name: CVResult}"
    check_kind("models", results, Mapping, remedy)
    first = next(iter(results), None)
    for name, result in results.items():
        check_kind(f"the result of {name}", result, CVResult, remedy)
        reason = data_difference(results[first].fit.model, result.fit.model)
        if not results[first].folds.same_as(result.folds):
            reason = "their folds differ: run both on the same Folds"
        if reason:
            raise ValueError(f"{first} and {name} cannot be compared: {reason}")
    return [name for name, result in results.items() if not np.isfinite(result.loss)]
