"""Maps of areas by their outlines, and the scatters and bars that go with them."""

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import PathCollection
from matplotlib.path import Path

from acvlib.plots import RUNGS

METHODS = RUNGS | {
    "cold_em": ("EM from scratch", "#a23b72"),
    "authors_em": ("EM as the authors' program", "#6b1f47"),
}


def areas(ax, data, values, label, cmap="viridis", **limits):
    """The areas of a `datasets.Areas` coloured by values (n,), grey where nan; `limits`: vmin,
    vmax of the colours.
    """
    values = np.ma.masked_invalid(np.asarray(values, float))
    style = {
        "edgecolors": "white",
        "linewidths": 0.2,
        "cmap": colormaps[cmap].with_extremes(bad="#d9d9d9"),
    }
    shapes = PathCollection([_path(rings) for rings in data.outlines], array=values, **style)
    shapes.set_clim(limits.get("vmin"), limits.get("vmax"))
    ax.add_collection(shapes)
    ax.set_aspect(data.aspect)
    ax.autoscale_view()
    ax.set_axis_off()
    ax.figure.colorbar(shapes, ax=ax, label=label, shrink=0.7, location="top", pad=0.02)
    return ax


def _path(rings):
    """One path of all rings of an area; a hole is one by its direction."""
    codes = [[Path.MOVETO, *[Path.LINETO] * (len(ring) - 2), Path.CLOSEPOLY] for ring in rings]
    return Path(np.concatenate(rings), np.concatenate(codes))


def seconds_by_method(ax, table):
    """Bars of the seconds of each method, on a log axis, with how many times the first they are."""
    names, colours = zip(*(METHODS[method] for method in table.index), strict=True)
    bars = ax.barh(names, table.seconds.astype(float), color=colours)
    ratios = [f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}" for ratio in table.over_acv]
    ax.bar_label(bars, [f" {ratio} ×" for ratio in ratios], fontsize="small")
    ax.set(xscale="log", xlabel="seconds for all folds")
    ax.set_xlim(right=3 * float(table.seconds.max()))
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    return ax


def losses_against(ax, table, xlabel="paper's coupling β"):
    """One line a rung (column) of mean losses, its minimum ringed."""
    for method in table:
        name, colour = METHODS[method]
        style = {"lw": 3.0, "alpha": 0.35} if method == "exact" else {"lw": 1.2}
        ax.plot(table.index, table[method], "-", color=colour, label=name, **style)
        best = table[method].idxmin()
        ax.plot(best, table.loc[best, method], "o", mfc="none", color=colour)
    ax.set(xlabel=xlabel, ylabel="mean held-out loss (nats)")
    return ax
