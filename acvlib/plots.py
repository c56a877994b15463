"""Plots of methods against each other: scatters, errors, times, in one style."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.dates import ConciseDateFormatter

STYLE = {
    "axes.grid": True,
    "axes.prop_cycle": plt.cycler(
        color=["#2a6f97", "#e07a1f", "#3a7d44", "#a23b72", "#6c757d", "#c9a227"]
    ),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    # Ids inside an SVG are random unless salted: the same figure is to be the same file.
    "svg.hashsalt": "acvlib",
}


RUNGS = {
    "no_adjustment": ("no adjustment", "#6c757d"),
    "as_printed": ("Theorem 3.1 as printed", "#a23b72"),
    "infinitesimal_jackknife": ("infinitesimal jackknife", "#2a6f97"),
    "frozen_newton": ("one frozen step", "#e07a1f"),
    "newton_step": ("one Newton step", "#3a7d44"),
    "exact": ("exact refit", "#222222"),
}


def subplots(*args, **kwargs):
    """`plt.subplots` in the house style, which stays in force for what is drawn into it."""
    plt.rcParams.update(STYLE)
    return plt.subplots(*args, **kwargs)


def series(ax, time, values, blocks):
    """A series in time, with each left-out block (an array of sites) shaded; nan leaves a gap."""
    for block in blocks:
        ax.axvspan(time[block[0]], time[block[-1]], color="#e07a1f", alpha=0.25, lw=0)
    ax.plot(time, values, lw=0.5, color="#2a6f97")
    ax.xaxis.set_major_formatter(ConciseDateFormatter(ax.xaxis.get_major_locator()))
    ax.set_ylabel("cars in 5 minutes")
    return ax


def scatter(ax, reference, other):
    """Pointwise held-out losses of two results against each other, with the line of agreement."""
    x, y = (np.concatenate(result.pointwise) for result in (reference, other))
    ax.plot([x.min(), x.max()], [x.min(), x.max()], "k--", lw=0.8, zorder=3)
    ax.plot(x, y, ".", ms=_mark(x), color="#a23b72", rasterized=True)
    ax.set_xlabel(f"loss, {RUNGS[reference.method][0]}")
    ax.set_ylabel(f"loss, {RUNGS[other.method][0]}")
    return ax


def _mark(x):
    """The size of a mark: small where there are thousands."""
    return 2 if len(x) > 1000 else 5


def differences(ax, reference, baseline, *others):
    """How far each result moves the pointwise losses from the baseline, against how far the reference does."""
    x, base = (np.concatenate(result.pointwise) for result in (reference, baseline))
    reach = np.abs(x - base).max()
    ax.plot([-reach, reach], [-reach, reach], "k--", lw=0.8, zorder=3)
    for result in others:
        name, colour = RUNGS[result.method]
        moved = np.concatenate(result.pointwise) - base
        ax.plot(x - base, moved, ".", ms=_mark(x), color=colour, label=name, rasterized=True)
    ax.set_xlabel(f"{RUNGS[reference.method][0]} minus baseline")
    ax.set_ylabel("rung minus baseline")
    return ax


def error_ladder(ax, errors):
    """One box a rung of the folds' parameter errors, in standard errors, on a log axis; `errors` by method."""
    boxes = ax.boxplot(
        list(errors.values()), whis=(5, 95), widths=0.6, showfliers=False, patch_artist=True
    )
    for box, median, method in zip(boxes["boxes"], boxes["medians"], errors, strict=True):
        box.set(facecolor=RUNGS[method][1], alpha=0.75)
        median.set(color="black")
    ax.set_xticks(
        range(1, len(errors) + 1), [RUNGS[method][0].replace(" ", "\n", 1) for method in errors]
    )
    ax.set_yscale("log")
    ax.set_ylabel("parameter error (standard errors)")
    return ax


def lines_by_rung(ax, table, ylabel):
    """One line a rung (column) of a table against its index, both axes logarithmic."""
    for method in table:
        name, colour = RUNGS[method]
        ax.plot(table.index, table[method], "o-", color=colour, label=name)
    ax.set(xscale="log", yscale="log", xlabel=table.index.name, ylabel=ylabel)
    ax.set_xticks(table.index, [f"{size:,}" for size in table.index])
    ax.minorticks_off()
    return ax


def published(ax, table):
    """The paper's own seconds as hollow marks, in the colours of their rungs (columns)."""
    for method in table:
        ax.plot(table.index, table[method], "o--", color=RUNGS[method][1], mfc="none", lw=0.6)
    return ax
