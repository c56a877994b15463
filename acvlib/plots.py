"""Plots of methods against each other: scatters, errors, times, in one style."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .checks import check_kind, real_array
from .extras import require
from .results import CVResult

plt = require("matplotlib.pyplot", extra="plots")

# Of what is no method: none of them is a method's colour.
COLOURS = ["#6d4c41", "#00838f", "#9e9d24", "#e57373", "#5c6bc0", "#616161"]
STYLE = {
    "axes.grid": True,
    "axes.prop_cycle": plt.cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.size": 11,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    # Ids inside an SVG are random unless salted: the same figure is to be the same file.
    "svg.hashsalt": "acvlib",
}


class Style(NamedTuple):
    """How a method looks in every figure."""

    label: str
    colour: str
    marker: str

    @property
    def look(self) -> dict:
        """Settings for `ax.plot`."""
        return {"label": self.label, "color": self.colour, "marker": self.marker}


# Any two of these colours can be told apart with deuteranopia, too: tests/test_plots.py.
RUNGS = {
    "no_adjustment": Style("no adjustment", "#999999", "s"),
    "as_printed": Style("Theorem 3.1 as printed", "#880e4f", "v"),
    "infinitesimal_jackknife": Style("infinitesimal jackknife", "#3f7fd9", "o"),
    "frozen_newton": Style("one frozen step", "#e69f00", "D"),
    "newton_step": Style("one Newton step", "#2e7d32", "p"),
    "exact": Style("exact refit", "#000000", "P"),
    "treecv": Style("TreeCV", "#4a148c", "X"),
}
NEW_DATA = Style("test data", "#7fd0ff", "*")


def subplots(*args: Any, **settings: Any) -> Any:
    """Call `plt.subplots` in the house style, which stays in force for what is drawn into it."""
    plt.rcParams.update(STYLE)
    return plt.subplots(*args, **settings)


def series(ax: Any, time: np.ndarray, values: np.ndarray, blocks: Any) -> Any:
    """Plot a series in time with each left-out block (sites) shaded; nan leaves a gap."""
    dates = require("matplotlib.dates", extra="plots")
    for block in blocks:
        ax.axvspan(time[block[0]], time[block[-1]], color=COLOURS[3], alpha=0.3, lw=0)
    ax.plot(time, values, lw=0.5, color=COLOURS[1])
    locator = ax.xaxis.get_major_locator()
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    ax.set_ylabel("cars in 5 minutes")
    return ax


def scatter(ax: Any, reference: CVResult, other: CVResult) -> Any:
    """Plot pointwise held-out losses of two results, with the line of agreement."""
    x, y = _losses(reference, other)
    _agreement(ax, x.min(), x.max())
    _dots(ax, x, y, _rung(other.method))
    ax.set_xlabel(f"loss, {_rung(reference.method).label} (nats)")
    ax.set_ylabel(f"loss, {_rung(other.method).label} (nats)")
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
        _dots(ax, x, y - base, _rung(result.method))
    ax.set_xlabel(f"{_rung(reference.method).label} minus baseline")
    ax.set_ylabel("rung minus baseline")
    return ax


def _rung(method):
    """The style of a method, or of a result that was changed afterwards."""
    return RUNGS.get(method, Style(method, COLOURS[-1], "o"))


def _losses(*results):
    """The losses of each result, fold by fold; ValueError where folds differ."""
    for result in results:
        check_kind("a result", result, CVResult)
        if not result.folds.same_as(results[0].folds):
            raise ValueError("the results are of different folds: run all on the same Folds")
    return [np.concatenate(result.losses) for result in results]


def _agreement(ax, low, high):
    ax.plot([low, high], [low, high], "k--", lw=0.8, zorder=3)


def _dots(ax, x, y, style):
    """Points, small where there are thousands."""
    size = 1 if len(x) > 1000 else 3
    ax.plot(x, y, ls="", ms=size, rasterized=True, **style.look)


def error_ladder(ax: Any, errors: dict[str, np.ndarray]) -> Any:
    """Plot one box a method of the folds' parameter errors in standard errors, on a log axis."""
    settings = {"whis": (5, 95), "widths": 0.6, "showfliers": False, "patch_artist": True}
    check_kind("errors", errors, Mapping)
    boxes = [real_array(f"errors of {name}", values, 1) for name, values in errors.items()]
    rungs = [_rung(method) for method in errors]
    names = [rung.label.replace(" ", "\n", 1) for rung in rungs]
    drawn = ax.boxplot(boxes, medianprops={"color": "black"}, **settings)
    for box, rung in zip(drawn["boxes"], rungs, strict=True):
        box.set(facecolor=rung.colour, alpha=0.75)
    ax.set_xticks(range(1, len(names) + 1), names)
    ax.set_yscale("log")
    ax.set_ylabel("parameter error (standard errors)")
    return ax


def lines_by_rung(ax: Any, table: Any, ylabel: str) -> Any:
    """Plot one line a method (column) of a table against its index, both axes logarithmic."""
    for method in table:
        ax.plot(table.index, table[method], "-", **RUNGS[method].look)
    ax.set(xscale="log", yscale="log", xlabel=table.index.name, ylabel=ylabel)
    ax.set_xticks(table.index, [f"{size:,}" for size in table.index])
    ax.minorticks_off()
    return ax


def published(ax: Any, table: Any) -> Any:
    """Plot the paper's own seconds as hollow marks, in the colours of their methods (columns)."""
    for method in table:
        look = RUNGS[method].look | {"label": None}
        ax.plot(table.index, table[method], "--", mfc="none", lw=0.6, **look)
    return ax
