"""Plots of methods against each other: scatters, errors, times, in one style."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .checks import check_kind, real_array
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
    locator = ax.xaxis.get_major_locator()
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    ax.set_ylabel("cars in 5 minutes")
    return ax


def scatter(ax: Any, reference: CVResult, other: CVResult) -> Any:
    """Plot pointwise held-out losses of two results, with the line of agreement."""
    x, y = _losses(reference, other)
    _agreement(ax, x.min(), x.max())
    _dots(ax, x, y, color="#a23b72")
    ax.set_xlabel(f"loss, {_rung(reference.method)[0]}")
    ax.set_ylabel(f"loss, {_rung(other.method)[0]}")
    return ax


def differences(ax: Any, reference: CVResult, baseline: CVResult, *others: CVResult) -> Any:
    """Plot how far each result moves the pointwise losses from the baseline's.

    The horizontal axis is how far the reference moves them.
    """
    base, x, *ys = _losses(baseline, reference, *others)
    x = x - base
    reach = np.abs(x).max()
    _agreement(ax, -reach, reach)
    for result, y in zip(others, ys, strict=True):
        name, colour = _rung(result.method)
        _dots(ax, x, y - base, color=colour, label=name)
    ax.set_xlabel(f"{_rung(reference.method)[0]} minus baseline")
    ax.set_ylabel("rung minus baseline")
    return ax


def _rung(method):
    """(name, colour) of a method, or of a result that was changed afterwards."""
    return RUNGS.get(method, (method, COLOURS[-1]))


def _losses(*results):
    """The losses of each result, fold by fold; ValueError where folds differ."""
    for result in results:
        check_kind("a result", result, CVResult)
        if not result.folds.same_as(results[0].folds):
            raise ValueError("the results are of different folds: run all on the same Folds")
    return [np.concatenate(result.losses) for result in results]


def _agreement(ax, low, high):
    ax.plot([low, high], [low, high], "k--", lw=0.8, zorder=3)


def _dots(ax, x, y, **settings):
    """Points, small where there are thousands."""
    size = 2 if len(x) > 1000 else 5
    ax.plot(x, y, ".", ms=size, rasterized=True, **settings)


def error_ladder(ax: Any, errors: dict[str, np.ndarray]) -> Any:
    """Plot one box a method of the folds' parameter errors in standard errors, on a log axis."""
    settings = {"whis": (5, 95), "widths": 0.6, "showfliers": False, "patch_artist": True}
    check_kind("errors", errors, Mapping)
    boxes = [real_array(f"errors of {name}", values, 1) for name, values in errors.items()]
    rungs = [_rung(method) for method in errors]
    names = [name.replace(" ", "\n", 1) for name, _ in rungs]
    drawn = ax.boxplot(boxes, medianprops={"color": "black"}, **settings)
    for box, (_, colour) in zip(drawn["boxes"], rungs, strict=True):
        box.set(facecolor=colour, alpha=0.75)
    ax.set_xticks(range(1, len(names) + 1), names)
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
