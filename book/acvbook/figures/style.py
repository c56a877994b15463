"""The house style of figures, how they are kept, and plots of methods against each other."""

import io
import os
import re
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
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


def scatter(ax, reference, *others, of=pointwise):
    """Plot numbers of results, their losses unless told, against the reference's, with the line of
    agreement. Newton steps, which may be anywhere, do not set the scale.
    """
    _check(reference, *others)
    x = of(reference)
    _agreement(ax, x.min(), x.max())
    for result in sorted(others, key=lambda result: result.method == "newton_step"):
        if result.method == "newton_step":
            ax.set_ylim(ax.get_ylim())
        _dots(ax, x, of(result), _rung(result.method))
    other = _rung(others[0].method).label if len(others) == 1 else "rung"
    ax.set_xlabel(f"loss, {_rung(reference.method).label} (nats)")
    ax.set_ylabel(f"loss, {other} (nats)")
    return ax


def differences(ax, reference, baseline, *others):
    """Plot how far each result moves the pointwise losses from the baseline's.

    The horizontal axis is how far the reference moves them.
    """
    _check(baseline, reference, *others)
    base, x, *ys = map(pointwise, (baseline, reference, *others))
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


def _check(*results):
    """Raise ValueError where folds differ."""
    for result in results:
        if not result.folds.same_as(results[0].folds):
            raise ValueError("the results are of different folds: run all on the same Folds")


def _agreement(ax, low, high):
    ax.plot([low, high], [low, high], "k--", lw=0.8, zorder=3)


def _dots(ax, x, y, style):
    """Points, small where there are thousands."""
    size = 1 if len(x) > 1000 else 3
    ax.plot(x, y, ls="", ms=size, rasterized=True, **style.look)


def lines(ax, table, styles=RUNGS, hollow=False, **settings):
    """One line a column that has a style against the table's index; hollow: somebody else's
    numbers, in the same colours. settings: of the axes.
    """
    other = {"label": None, "ls": "--", "mfc": "none", "lw": 0.6}
    for name in [name for name in table if name in styles]:
        look = {"ls": "-", "ms": 4, **styles[name].look} | (other if hollow else {})
        ax.plot(table.index, table[name], **look)
    ax.set(**{} if hollow else {"xlabel": table.index.name} | settings)
    return ax


def lines_by_size(ax, table, ylabel=None):
    """`lines` of rungs against numbers of sites, both axes logarithmic."""
    lines(ax, table, xscale="log", yscale="log", ylabel=ylabel)
    ax.set_xticks(table.index, [f"{size:,}" for size in table.index])
    ax.minorticks_off()
    return ax


def both_panels(axes, results, rungs):
    """Figures 1 to 3 of the paper: losses on the left, what leaving out adds on the right."""
    exact, none, *others = (results[name] for name in ("exact", "no_adjustment", *rungs))
    scatter(axes[0], exact, none, *others).set(xlabel="actual loss (nats)")
    differences(axes[1], exact, none, *others).set(xlabel="actual difference in loss")
    return axes


def pair_differences(ax, losses, rungs):
    """What leaving out adds to each pair's loss: predicted by rungs, against retrained."""
    x = losses.retrained - losses.full
    ax.plot([x.min(), x.max()], [x.min(), x.max()], "k--", lw=0.8, zorder=3)
    for rung in rungs:
        y = losses[rung] - losses.full
        ax.plot(x, y, ls="", ms=3, rasterized=True, **RUNGS[rung].look)
    ax.set(xlabel="difference after retraining", ylabel="predicted difference in loss")
    return ax


OUTLINE = re.compile(r'(?<= d=")[^"]*')
TOO_FINE = re.compile(r"(\.\d\d)\d+")  # a hundredth of a point cannot be seen


def save(fig, name, data=None, folder=None):
    """Write `figures/<name>.svg` in `folder`, or the output folder (`$ACVLIB_OUTPUT`), and return
    the closed `fig`.

    With `data` of provenance "simulated" or "rebuilt" the figure says so on its face. The file is
    written whole or not at all, and is the same byte for byte when the figure is the same.
    """
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


def _hold_legends(fig):
    """Keep legends outside the axes where they are: their places are of the page, which grows."""
    fig.draw_without_rendering()
    fig.set_layout_engine("none")
    for legend in fig.legends:
        corner = fig.transFigure.inverted().transform(legend.get_window_extent().min)
        legend.borderaxespad = 0.0
        legend.set_loc("lower left")
        legend.set_bbox_to_anchor(corner, fig.transFigure)
