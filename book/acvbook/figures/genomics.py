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
