"""Sequences and their cross-validation: losses, costs; a model at iterates of its optimiser."""

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from acvlib.plots import RUNGS, Style

from .style import COLOURS, NEW_DATA

_TEST = NEW_DATA._replace(label="test sequences")


def losses_with_errors(ax, table, columns, xlabel):
    """Means and two standard errors by model, the index of `mocap_orders.losses`: rungs, and test
    sequences. Newton steps, which may be anywhere, do not set the scale.
    """
    places, steady = np.arange(len(table)), []
    for column, shift in zip(columns, np.linspace(-0.3, 0.3, len(columns)), strict=True):
        means, errors = (table[name].to_numpy(float) for name in (column, f"se_{column}"))
        look = RUNGS.get(column, _TEST).look
        ax.errorbar(places + shift, means, 2 * errors, ls="", ms=4, capsize=2, **look)
        if column != "newton_step":
            steady += [means - 2 * errors, means + 2 * errors]
    low, high = np.min(steady), np.max(steady)
    ax.set_ylim(low - 0.5 * (high - low), high + 0.5 * (high - low))
    ax.set_xticks(places, table.index)
    ax.set(xlabel=xlabel, ylabel="loss of a sequence (nats)")
    return ax


def seconds_by_model(ax, table, columns):
    """Seconds of each model (row) and rung (column), on a logarithmic axis."""
    places = np.arange(len(table))
    for column in columns:
        style = RUNGS.get(column, Style(column, COLOURS[1], "h"))
        ax.plot(places, table[column], ":", lw=0.8, **style.look)
    ax.set_xticks(places, table.index)
    ax.set(yscale="log", ylabel="seconds")
    return ax


def shared_legend(fig, axes, n_used=None):
    """One legend of all panels below them; panels beyond the first n_used are not drawn."""
    flat = np.ravel(axes)
    for ax in flat[n_used:] if n_used else ():
        ax.set_axis_off()
    named = {}
    for ax in flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    ncols = int(fig.get_figwidth() / 2.1)  # inches that the longest name takes
    fig.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=ncols, markerscale=1.6
    )
    return fig


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
