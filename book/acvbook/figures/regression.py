"""Regression: estimates beside the test error, bounds and rates; and genes over time."""

import numpy as np

from acvlib.plots import RUNGS, Style

from .style import COLOURS, NEW_DATA, by_size, lines

SHORT = {"none": "no_adjustment", "ij": "infinitesimal_jackknife"}
SHORT |= {"frozen": "frozen_newton", "ns": "newton_step"}

ESTIMATES = {
    "train": RUNGS["no_adjustment"]._replace(label="training error"),
    "ij": RUNGS["infinitesimal_jackknife"],
    "ns": RUNGS["newton_step"],
    "exact": RUNGS["exact"]._replace(label="exact leave-one-out"),
    "test": NEW_DATA,
}


def error_differences(ax, ours, authors=None):
    """Boxes of each estimate minus the test error over data sets; the authors' are hollow."""
    for place, name in enumerate(("train", "ij", "ns", "exact")):
        style = {"widths": 0.35, "patch_artist": True, "flierprops": {"ms": 3}}
        style |= {"medianprops": {"color": "black"}}
        box = ax.boxplot(ours[name] - ours.test, positions=[place - 0.2], **style)
        box["boxes"][0].set(facecolor=ESTIMATES[name].colour, alpha=0.75)
        if authors is not None and name in authors:
            box = ax.boxplot(authors[name] - authors.test, positions=[place + 0.2], **style)
            box["boxes"][0].set(facecolor="white", edgecolor=ESTIMATES[name].colour)
    if authors is not None:
        ax.plot([], [], "s", color="#616161", mfc="white", label="the authors'")
    ax.axhline(0.0, color=ESTIMATES["test"].colour, lw=2, zorder=1, label="test error")
    ax.set_xticks(range(4), ["training\nerror", "IJ", "Newton\nstep", "exact"])
    return ax


def rung_errors_against(ax, table):
    """Errors of parameters of the rungs in SHORT (columns) against the table's index."""
    ylabel = "parameter error (standard errors)"
    return lines(ax, table.rename(columns=SHORT), xscale="log", yscale="log", ylabel=ylabel)


def bound_and_actual(ax, table):
    """Theorem 1's bound and the largest actual errors against n; hollow: it fails somewhere."""
    for column, name, colour in (
        ("bound", "bound", COLOURS[0]),
        ("none", "largest error of doing nothing", RUNGS["no_adjustment"].colour),
        ("actual", "largest error of the jackknife", RUNGS["infinitesimal_jackknife"].colour),
    ):
        ax.plot(table.n, table[column], "-", color=colour, label=name)
        hold = table.applies == 1.0
        ax.plot(table.n[hold], table[column][hold], "o", color=colour)
        ax.plot(table.n[~hold], table[column][~hold], "o", color=colour, mfc="white")
    ax.set(xlabel="rows N", ylabel="Euclidean distance of parameters")
    return by_size(ax, table.n)


def rates(ax, tables):
    """Largest errors against n: a colour a table, a mark a repetition; dotted, doing nothing."""
    for (label, table), colour in zip(tables.items(), COLOURS, strict=False):
        means = table.groupby("n")[["ij", "none"]].mean()
        ax.plot(means.ij, "-", color=colour, label=label)
        ax.plot(table.n, table.ij, ".", ms=4, color=colour)
        ax.plot(means.none, ":", color=colour)
    ax.plot([], [], ":", color="black", label="doing nothing, same colours")
    ax.set(xlabel="rows N", ylabel="largest error of a fold")
    return by_size(ax, means.index)


def norm_centres(ax, table):
    """Mean gradient norms against sqrt(D), laws side by side, with the claimed line."""
    root = table.dim**0.5
    for number, (law, rows) in enumerate(table.groupby("law")):
        places = root[rows.index]
        centres = places + rows.centre
        ax.plot(places + 0.1 * number - 0.15, centres, "osDv"[number], mfc="none", label=law)
    ax.plot([0, root.max()], [0, root.max()], "k--", lw=0.8, label="as stated")
    ax.set(xlabel="square root of D", ylabel="mean gradient norm")
    return ax


TIMES_ESTIMATES = ESTIMATES | {
    "frozen": RUNGS["frozen_newton"],
    "exact": RUNGS["exact"]._replace(label="exact CV, warm start"),
    "cold": Style("exact CV, cold start", COLOURS[0], "h"),
    "test": NEW_DATA._replace(label="test genes"),
}


def by_df(ax, table, authors=None):
    """One line an estimate (column) against df (index), the authors' as hollow marks."""
    lines(ax, table, TIMES_ESTIMATES, xlabel="degrees of freedom")
    if authors is not None:
        lines(ax, authors, TIMES_ESTIMATES, whose="the authors'")
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
        places = np.array(dfs) + shift
        style = {"widths": 0.28, "patch_artist": True, "whis": (0, 100)}
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
