"""Maps of areas by their outlines, and the scatters and bars that go with them."""

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import PathCollection
from matplotlib.path import Path

from acvlib.plots import RUNGS, Style

from .style import COLOURS

METHODS = RUNGS | {
    "cold_em": Style("EM from scratch", COLOURS[0], "h"),
    "authors_em": Style("EM as the authors' program", COLOURS[3], "8"),
}


def areas(ax, data, values, label, cmap="viridis", extend="neither", **limits):
    """The areas of a `datasets.Areas` coloured by values (n,), grey where nan; `limits`: vmin,
    vmax of the colours; extend: at which ends there are values beyond.
    """
    values = np.ma.masked_invalid(np.asarray(values, float))
    style = {"edgecolors": "white", "linewidths": 0.2}
    style["cmap"] = colormaps[cmap].with_extremes(bad="#d9d9d9")
    shapes = PathCollection([outline(rings) for rings in data.outlines], array=values, **style)
    shapes.set_clim(limits.get("vmin"), limits.get("vmax"))
    ax.add_collection(shapes)
    ax.set_aspect(data.aspect)
    ax.autoscale_view()
    ax.set_axis_off()
    place = {"shrink": 0.7, "location": "top", "pad": 0.02, "extend": extend}
    ax.figure.colorbar(shapes, ax=ax, label=label, **place)
    return ax


def outline(rings):
    """One path of all rings of an area; a hole is one by its direction."""
    codes = [[Path.MOVETO, *[Path.LINETO] * (len(ring) - 2), Path.CLOSEPOLY] for ring in rings]
    return Path(np.concatenate(rings), np.concatenate(codes))


def seconds_by_method(ax, table):
    """The seconds of each method, on a log axis, with how many times the first they are."""
    styles = [METHODS[method] for method in table.index]
    for place, (style, row) in enumerate(zip(styles, table.itertuples(), strict=True)):
        times = f"{row.over_acv:,.0f}" if row.over_acv >= 100 else f"{row.over_acv:.3g}"
        ax.plot(row.seconds, place, style.marker, color=style.colour)
        ax.annotate(
            f"{times} ×", (row.seconds, place), (8, 0), textcoords="offset points", va="center"
        )
    ax.set_yticks(range(len(styles)), [style.label for style in styles])
    ax.set(xscale="log", xlabel="seconds for all folds")
    ax.set_xlim(right=3 * float(table.seconds.max()))
    ax.invert_yaxis()
    return ax


def losses_against(ax, table, xlabel="paper's coupling β"):
    """One line a rung (column) of mean losses, its minimum ringed."""
    for method in table:
        style = METHODS[method]
        line = {"ls": "--", "zorder": 3} if method == "exact" else {"lw": 2.5}
        ax.plot(table.index, table[method], color=style.colour, label=style.label, **line)
        best = table[method].idxmin()
        ax.plot(best, table.loc[best, method], style.marker, mfc="none", color=style.colour)
    ax.set(xlabel=xlabel, ylabel="mean held-out loss (nats)")
    return ax
