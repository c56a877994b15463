"""Genes over time: clusters, fitted curves, errors and seconds by degrees of freedom."""

import numpy as np

from acvlib.plots import RUNGS, Style

from .style import COLOURS, NEW_DATA, lines

TIMES_ESTIMATES = {
    "train": RUNGS["no_adjustment"]._replace(label="training error"),
    "ij": RUNGS["infinitesimal_jackknife"],
    "frozen": RUNGS["frozen_newton"],
    "ns": RUNGS["newton_step"],
    "exact": RUNGS["exact"]._replace(label="exact CV, warm start"),
    "cold": Style("exact CV, cold start", COLOURS[0], "h"),
    "test": NEW_DATA._replace(label="test genes"),
}


def by_df(ax, table, authors=None):
    """One line an estimate (column) against df (index), the authors' as hollow marks."""
    lines(ax, table, TIMES_ESTIMATES, xlabel="degrees of freedom")
    if authors is not None:
        lines(ax, authors, TIMES_ESTIMATES, hollow=True)
    ax.set_xticks(table.index)
    return ax


def gene_cluster(ax, hours, genes, curve):
    """A cluster: its genes (n, n_times) and its mean curve (n_times,), less their own means."""
    place = _time_axis(ax, hours)
    ax.plot(place, genes.T, lw=0.4, color=COLOURS[1], alpha=0.35)
    ax.plot(place, curve, lw=2.2, color=COLOURS[0])
    return ax


def changes(ax, table, authors=None):
    """Boxes over rows of changes from the df before, training (left) and test (right) by df;
    the authors' as a mark.

    table: columns (estimate, df).
    """
    dfs = sorted({df for _, df in table.columns})
    for shift, name in ((-0.17, "train"), (0.17, "test")):
        label, colour, _ = TIMES_ESTIMATES[name]
        places, style = (
            np.array(dfs) + shift,
            {"widths": 0.28, "patch_artist": True, "whis": (0, 100)},
        )
        boxes = ax.boxplot([table[name, df] for df in dfs], positions=places, **style)
        for box, median in zip(boxes["boxes"], boxes["medians"], strict=True):
            box.set(facecolor=colour, alpha=0.6)
            median.set(color="black")
        ax.plot([], [], "s", color=colour, alpha=0.6, label=label)
        if authors is not None:
            ax.plot(places, authors[name].loc[dfs], "*", ms=9, mfc="white", color="black", zorder=4)
    ax.axhline(0.0, color="black", lw=0.8)
    ax.set_xticks(dfs, [f"to {df}" for df in dfs])
    ax.set(xlabel="step in degrees of freedom", xlim=(min(dfs) - 0.6, max(dfs) + 0.6))
    return ax


def _time_axis(ax, hours):
    """Positions sqrt(hours), as early times are close, with ticks in hours."""
    ticks = [hour for hour in (0, 6, 24, 72, 168) if hour <= max(hours)]
    ax.set_xticks(np.sqrt(ticks), [f"{hour}" for hour in ticks])
    return np.sqrt(hours)
