"""Plots of methods against each other: scatters, errors, times, in one style."""

from typing import Any

import numpy as np

from .extras import require
from .protocol import CVResult

plt = require("matplotlib.pyplot", extra="plots")

COLOURS = ["#2a6f97", "#e07a1f", "#3a7d44", "#a23b72", "#6c757d", "#c9a227"]
STYLE = {
    "axes.grid": True,
    "axes.prop_cycle": plt.cycler(color=COLOURS),
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


def subplots(*args: Any, **settings: Any) -> Any:
    """Call `plt.subplots` in the house style, which stays in force for what is drawn into it."""
    plt.rcParams.update(STYLE)
    return plt.subplots(*args, **settings)


def series(ax: Any, time: np.ndarray, values: np.ndarray, blocks: Any) -> Any:
    """Plot a series in time with each left-out block (sites) shaded; nan leaves a gap."""
    dates = require("matplotlib.dates", extra="plots")
    for block in blocks:
        ax.axvspan(time[block[0]], time[block[-1]], color="#e07a1f", alpha=0.25, lw=0)
    ax.plot(time, values, lw=0.5, color="#2a6f97")
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(ax.xaxis.get_major_locator()))
    ax.set_ylabel("cars in 5 minutes")
    return ax


def scatter(ax: Any, reference: CVResult, other: CVResult) -> Any:
    """Plot pointwise held-out losses of two results, with the line of agreement."""
    x = np.concatenate(reference.losses)
    y = np.concatenate(other.losses)
    ends = [x.min(), x.max()]
    ax.plot(ends, ends, "k--", lw=0.8, zorder=3)
    ax.plot(x, y, ".", ms=_mark(x), color="#a23b72", rasterized=True)
    ax.set_xlabel(f"loss, {RUNGS[reference.method][0]}")
    ax.set_ylabel(f"loss, {RUNGS[other.method][0]}")
    return ax


def _mark(x):
    """The size of a mark: small where there are thousands."""
    return 2 if len(x) > 1000 else 5


def differences(ax: Any, reference: CVResult, baseline: CVResult, *others: CVResult) -> Any:
    """Plot how far each result moves the pointwise losses from the baseline's.

    The horizontal axis is how far the reference moves them.
    """
    base = np.concatenate(baseline.losses)
    x = np.concatenate(reference.losses) - base
    reach = np.abs(x).max()
    ax.plot([-reach, reach], [-reach, reach], "k--", lw=0.8, zorder=3)
    for result in others:
        name, colour = RUNGS[result.method]
        moved = np.concatenate(result.losses) - base
        ax.plot(x, moved, ".", ms=_mark(x), color=colour, label=name, rasterized=True)
    ax.set_xlabel(f"{RUNGS[reference.method][0]} minus baseline")
    ax.set_ylabel("rung minus baseline")
    return ax


def error_ladder(ax: Any, errors: dict[str, np.ndarray]) -> Any:
    """Plot one box a method of the folds' parameter errors in standard errors, on a log axis."""
    settings = {"whis": (5, 95), "widths": 0.6, "showfliers": False, "patch_artist": True}
    boxes = ax.boxplot(list(errors.values()), **settings)
    for box, median, method in zip(boxes["boxes"], boxes["medians"], errors, strict=True):
        box.set(facecolor=RUNGS[method][1], alpha=0.75)
        median.set(color="black")
    names = [RUNGS[method][0].replace(" ", "\n", 1) for method in errors]
    ax.set_xticks(range(1, len(errors) + 1), names)
    ax.set_yscale("log")
    ax.set_ylabel("parameter error (standard errors)")
    return ax


def lines_by_rung(ax: Any, table: Any, ylabel: str) -> Any:
    """Plot one line a method (column) of a table against its index, both axes logarithmic."""
    for method in table:
        name, colour = RUNGS[method]
        ax.plot(table.index, table[method], "o-", color=colour, label=name)
    ax.set(xscale="log", yscale="log", xlabel=table.index.name, ylabel=ylabel)
    ax.set_xticks(table.index, [f"{size:,}" for size in table.index])
    ax.minorticks_off()
    return ax


def published(ax: Any, table: Any) -> Any:
    """Plot the paper's own seconds as hollow marks, in the colours of their methods (columns)."""
    for method in table:
        ax.plot(table.index, table[method], "o--", color=RUNGS[method][1], mfc="none", lw=0.6)
    return ax
