"""The house style of figures, how they are kept, and plots of methods against each other."""

import io
import os
import re
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator
from matplotlib.transforms import Bbox

from acvlib.plots import RUNGS, Style

from ..whole import write

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
NEW_DATA = Style("test data", "#7fd0ff", "*")


def subplots(*args, **settings):
    """Call `plt.subplots` in the house style, which stays in force for what is drawn into it."""
    plt.rcParams.update(STYLE)
    return plt.subplots(*args, **settings)


def pointwise(result):
    """The losses of all left-out sites, fold by fold."""
    return np.concatenate(result.losses)


def scatter(ax, reference, *others, of=pointwise, unit="nats"):
    """Plot numbers of results, their losses unless told, against the reference's."""
    _check(reference, *others)
    _agreement(ax, of(reference), {result.method: of(result) for result in others})
    names = [RUNGS[result.method].label for result in (reference, *others)]
    ax.set_xlabel(f"loss, {names[0]} ({unit})")
    ax.set_ylabel(f"loss, {names[1]} ({unit})" if len(names) == 2 else f"loss ({unit})")
    return ax


def differences(ax, reference, nothing, *others, unit="nats"):
    """Plot how far each result moves the pointwise losses from those of doing nothing, against how
    far the reference does.
    """
    _check(nothing, reference, *others)
    change = {result.method: pointwise(result) - pointwise(nothing) for result in others}
    _agreement(ax, pointwise(reference) - pointwise(nothing), change)
    ax.set_xlabel(f"change by {RUNGS[reference.method].label} ({unit})")
    ax.set_ylabel(f"change from doing nothing ({unit})")
    return ax


def pair_differences(ax, losses, rungs):
    """What leaving out adds to each pair's loss: predicted by rungs, against retrained."""
    _agreement(ax, losses.retrained - losses.full, {r: losses[r] - losses.full for r in rungs})
    ax.set(xlabel="change after retraining", ylabel="predicted change of the loss")
    return ax


def _check(*results):
    """Raise ValueError where folds differ."""
    for result in results:
        if not result.folds.same_as(results[0].folds):
            raise ValueError("the results are of different folds: run all on the same Folds")


def _agreement(ax, x, values):
    """The values of each method against x and the line of agreement: the nearer to it the higher
    and smaller the marks, so that all are seen. Newton steps, which may be anywhere, do not set the
    scale.
    """
    ax.plot([x.min(), x.max()], [x.min(), x.max()], "k--", lw=0.8, zorder=3)
    heights = sorted(values, key=lambda method: -np.abs(values[method] - x).mean())
    for method in sorted(values, key="newton_step".__eq__):
        if method == "newton_step":
            ax.set_ylim(ax.get_ylim())
        height = heights.index(method)
        size = {"ms": 1} if len(x) > 1500 else {"ms": 7 - 1.5 * height, "mfc": "none", "mew": 0.7}
        look = size | RUNGS[method].look | {"ls": "", "rasterized": True}
        ax.plot(x, values[method], zorder=2 + 0.1 * height, **look)
    ax.locator_params("x", nbins=4)


def lines(ax, table, styles=RUNGS, whose=None, **settings):
    """One line a column that has a style against the table's index; hollow where they are somebody
    else's, whose legend has one entry for all. settings: of the axes.
    """
    other = {"label": None, "ls": "--", "mfc": "none", "lw": 0.6} if whose else {}
    for name in [name for name in table if name in styles]:
        ax.plot(table.index, table[name], **{"ls": "-", "ms": 4} | styles[name].look | other)
    if whose:
        ax.plot([], [], "o", color="#616161", ms=4, **other | {"label": whose})
    ax.set(**{} if whose else {"xlabel": table.index.name} | settings)
    return ax


def lines_by_size(ax, table, ylabel=None):
    """`lines` of rungs against numbers of sites, both axes logarithmic."""
    return by_size(lines(ax, table, ylabel=ylabel), table.index)


def by_size(ax, sizes):
    """Both axes logarithmic, with a tick at each of the sizes and no other below."""
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.xaxis.minorticks_off()
    return ax


def plain_ticks(*axes):
    """Plain numbers at 1, 2 and 5 times powers of ten, for short logarithmic axes."""
    for axis in axes:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")


def both_panels(axes, results, rungs, unit="nats"):
    """Figures 1 to 3 of the paper: losses on the left, what leaving out adds on the right."""
    exact, *others = (results[name] for name in ("exact", "no_adjustment", *rungs))
    scatter(axes[0], exact, *others, unit=unit)
    differences(axes[1], exact, *others, unit=unit)
    return axes


OUTLINE = re.compile(r'(?<= d=")[^"]*')
TOO_FINE = re.compile(r"(\.\d\d)\d+")  # a hundredth of a point cannot be seen


def save(fig, name, data=None, folder=None):
    """Write `figures/<name>.svg` in `folder`, or the output folder (`$ACVLIB_OUTPUT`), and return
    the closed `fig`, with one legend of all panels below them if no panel has one.

    With `data` of provenance "simulated" or "rebuilt" the figure says so on its face. The file is
    written whole or not at all, and is the same byte for byte when the figure is the same.
    """
    _share_legend(fig)
    width, height = fig.get_size_inches()
    strip = 0.0  # inches below the figure
    if data is not None and data.provenance in ("simulated", "rebuilt"):
        strip = 0.25
        text = f"{data.provenance} data"
        below = -0.01 / height
        _hold_legends(fig)
        fig.text(0.995, below, text, ha="right", va="top", color="#b00020", fontsize=11)
    page = Bbox([[0.0, -strip], [width, height]])
    folder = folder or os.environ.get("ACVLIB_OUTPUT", "build/interactive")
    path = Path(folder, "figures", f"{name}.svg")
    drawing = io.StringIO()
    fig.savefig(drawing, format="svg", metadata={"Date": None}, bbox_inches=page)
    write(path, OUTLINE.sub(lambda path: TOO_FINE.sub(r"\1", path[0]), drawing.getvalue()))
    plt.close(fig)
    return fig


def _share_legend(fig):
    """Name what the panels show below them, unless it is one thing or a panel names it."""
    named = {}
    for ax in fig.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if len(named) > 1 and not any(ax.get_legend() for ax in fig.axes):
        rows = np.ceil(2.1 * len(named) / fig.get_figwidth())  # the longest name takes 2.1 inches
        style = {"loc": "outside lower center", "ncols": int(np.ceil(len(named) / rows))}
        legend = fig.legend(named.values(), named.keys(), **style)
        for line in legend.get_lines():
            line.set_markersize(max(6.0, line.get_markersize()))


def _hold_legends(fig):
    """Keep legends outside the axes where they are: their places are of the page, which grows."""
    fig.draw_without_rendering()
    fig.set_layout_engine("none")
    for legend in fig.legends:
        corner = fig.transFigure.inverted().transform(legend.get_window_extent().min)
        legend.borderaxespad = 0.0
        legend.set_loc("lower left")
        legend.set_bbox_to_anchor(corner, fig.transFigure)
