"""TreeCV and standard cross-validation: spread, running time, bounds."""

import numpy as np

from acvlib.plots import RUNGS

from .style import COLOURS, plain_ticks

TREECV, STANDARD = RUNGS["treecv"].colour, RUNGS["exact"].colour
TRAINING, BOUND = RUNGS["no_adjustment"].colour, COLOURS[0]
_VARIANTS = {
    ("treecv", "fixed"): (TREECV, "-", "TreeCV, fixed"),
    ("treecv", "randomized"): (TREECV, "--", "TreeCV, randomized"),
    ("standard", "fixed"): (STANDARD, "-", "standard, fixed"),
    ("standard", "randomized"): (STANDARD, "--", "standard, randomized"),
}


def cv_spread(ax, table, published=None):
    """Standard deviation of the CV estimate against folds; crosses: as published."""
    for variant, (colour, line, label) in _VARIANTS.items():
        ours = table.loc[variant].sort_values("folds")
        ax.plot(ours["folds"], ours["sd"], line, color=colour, marker="o", label=label)
        if published is not None:
            theirs = published.loc[variant].sort_values("folds")
            ax.plot(theirs["folds"], theirs["sd"], "x", color=colour, ms=8)
    if published is not None:
        ax.plot([], [], "x", color="#616161", ms=8, label="the paper's")
    ax.set(xscale="log", yscale="log", xlabel="folds", ylabel="SD of the estimate × 100")
    plain_ticks(ax.yaxis)
    return ax


def running_times(axes, frame, name):
    """Three panels of `treecv.repeat`: fixed order, random order, leave one out."""
    folds = frame[frame["k"] > 0]
    for ax, order in zip(axes, ("fixed", "randomized"), strict=False):
        _running_time(ax, folds[folds["order"] == order], f"{name}, {order}")
    _running_time(axes[2], frame[frame["k"] == 0], f"{name}, leave-one-out")
    return axes


def _running_time(ax, frame, title):
    """Mean seconds against n, one line for each method, order and k; dots: medians."""
    for (method, order, k), part in frame.groupby(["method", "order", "k"]):
        colour, line, label = _VARIANTS[method, order]
        mean, median = (part.groupby("n")["seconds"].agg(middle) for middle in ("mean", "median"))
        name = f"{label.split(',')[0]}, k = {k}" if k else label
        width = {5: 0.8, 10: 1.3, 100: 2.0}.get(k, 1.3)
        ax.plot(mean.index, mean, line, color=colour, linewidth=width, label=name)
        ax.plot(median.index, median, ".", color=colour)
    ax.set(title=title, xlabel="rows n", ylabel="seconds", xscale="log", yscale="log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter("")


def against_bound(ax, k, measured, bound, ylabel):
    """A cost against the number of folds, and the bound of a theorem above it."""
    ax.plot(k, measured, marker="o", color=TREECV, label="measured")
    ax.plot(k, bound, "--", color=BOUND, label="bound")
    ax.set(xscale="log", xlabel="folds k", ylabel=ylabel)
    return ax


def stability(ax, drawn, bound, title):
    """|TreeCV - CV| and |training error - CV| against n, from `treecv_theorems.gaps`: medians and
    80 % bands; crosses: |mean of TreeCV - CV|; dashed and dotted: the bounds of both theorems.
    """
    for column, colour, label in [
        ("nothing", TRAINING, "training error"),
        ("treecv", TREECV, "TreeCV"),
    ]:
        sizes = drawn[column].abs().groupby(drawn["n"])
        low, middle, high = (sizes.quantile(level) for level in (0.1, 0.5, 0.9))
        ax.plot(middle.index, middle, color=colour, marker=".", label=label)
        ax.fill_between(middle.index, low, high, color=colour, alpha=0.2, linewidth=0)
    mean = drawn.groupby("n")["treecv"].mean().pipe(np.abs)
    ax.plot(mean.index, mean, "x", color=TREECV, label="TreeCV, |mean|")
    ax.plot(bound.index, bound["sure"], "--", color=BOUND, label="bound, Theorem 1")
    ax.plot(bound.index, bound["expected"], ":", color=BOUND, label="bound, Theorem 2")
    ax.set(title=title, xlabel="rows n", xscale="log", yscale="log")
    ax.set_ylabel("distance from CV (loss)")
    ax.xaxis.set_minor_formatter("")
    return ax
