"""A model at iterates of its optimiser: probabilities, errors, bounds; errors of labels."""

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from acvlib.plots import RUNGS, Style


def error_against(ax, table, x, column, xlabel, ylabel):
    """A column by epoch and rung against x (by epoch, or a column's name), one line a rung."""
    for method in table.index.unique("rung"):
        rows = table.xs(method, level="rung")
        place = rows[x] if isinstance(x, str) else [x[epoch] for epoch in rows.index]
        ax.plot(place, rows[column], "-", ms=4, **RUNGS[method].look)
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    return _few_ticks(ax, ax.xaxis, ax.yaxis)


def _few_ticks(ax, *axes):
    """Plain numbers at 1, 2 and 5 times powers of ten, for short logarithmic axes."""
    for axis in axes:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(ScalarFormatter())
        axis.set_minor_formatter(NullFormatter())
    return ax


def bound_along(ax, table):
    """Proposition 2: the error and its two bounds against the distance to the optimum."""
    rows = table.sort_values("distance_se")
    for column, name, line in (
        ("bound", "bound, Euclidean", ":"),
        ("bound_se", "bound, in standard errors", "--"),
        ("error", "error of the mean loss", "-"),
    ):
        holds = np.full(len(rows), True)
        if column != "error":
            holds = rows[column.replace("bound", "applies")].astype(bool)
        look = RUNGS["infinitesimal_jackknife"].look | {"label": name}
        ax.plot(rows.distance_se[holds], rows[column][holds], line, ms=4, **look)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="distance to the optimum (standard errors)",
        ylabel="nats a fold",
    )
    if np.ptp(np.log10(ax.get_xlim())) < 2.0:
        _few_ticks(ax, ax.xaxis)
    return ax


def hidden_label_errors(ax, table, rungs):
    """Parameter errors of folds of one token against the loss of its label, a mark a fold."""
    looks = RUNGS | {"linear": Style("Algorithm 4, linear weights", "#880e4f", "v")}
    for method in rungs:
        ax.plot(table.loss, table[method], ls="", ms=2, rasterized=True, **looks[method].look)
    ax.set(xscale="log", yscale="log", xlabel="exact held-out loss of the label (nats)")
    ax.set_ylabel("parameter error (standard errors)")
    return ax
