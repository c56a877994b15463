"""Sequences and their cross-validation: losses, costs; a model at iterates of its optimiser."""

import numpy as np

from acvlib.plots import RUNGS, Style

from .style import COLOURS, NEW_DATA, plain_ticks

_TEST = NEW_DATA._replace(label="test recordings")


def losses_with_errors(ax, means, errors, columns):
    """Means, and two standard errors to either side, by model (row): rungs, and test recordings."""
    places = np.arange(len(means))
    for column, shift in zip(columns, np.linspace(-0.3, 0.3, len(columns)), strict=True):
        y, error = (table[column].to_numpy(float) for table in (means, errors))
        look = RUNGS.get(column, _TEST).look
        ax.errorbar(places + shift, y, 2 * error, ls="", ms=4, capsize=2, **look)
    ax.set_xticks(places, means.index)
    ax.set(xlabel="emission")
    return ax


def seconds_by_model(ax, table, columns):
    """Seconds of each model (row) and rung (column), on a logarithmic axis; orders are joined."""
    places = np.arange(len(table))
    order = table.index.str.startswith("AR(")
    for column in columns:
        style = RUNGS.get(column, Style(column, COLOURS[1], "h"))
        ax.plot(places, table[column], ls="", **style.look)
        ax.plot(places[order], table[column][order], ":", lw=0.8, color=style.colour)
    ax.set_xticks(places, table.index)
    ax.set(yscale="log", ylabel="seconds")
    return ax


def error_against(ax, table, x, column, xlabel, ylabel):
    """A column by epoch and rung against x (by epoch, or a column's name), one line a rung."""
    for method in table.index.unique("rung"):
        rows = table.xs(method, level="rung")
        place = rows[x] if isinstance(x, str) else [x[epoch] for epoch in rows.index]
        ax.plot(place, rows[column], "-", ms=4, **RUNGS[method].look)
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    plain_ticks(ax.xaxis, ax.yaxis)
    return ax


def bound_along(ax, table):
    """Proposition 2: errors and the IJ's two bounds against the distance to the optimum."""
    rows = table.sort_values("distance_se")
    for suffix, name, line in (("", "bound, Euclidean", ":"), ("_se", "bound, by SE", "--")):
        holds = rows[rows[f"applies{suffix}"].astype(bool)]
        look = {"ls": line, "marker": "o", "ms": 4, "color": COLOURS[0], "label": name}
        ax.plot(holds.distance_se, holds[f"bound{suffix}"], **look)
    for column, rung in (("none_error", "no_adjustment"), ("error", "infinitesimal_jackknife")):
        ax.plot(rows.distance_se, rows[column], "-", ms=4, **RUNGS[rung].look)
    ax.set(xscale="log", yscale="log", ylabel="error of the mean loss (nats a fold)")
    ax.set_xlabel("distance to the optimum (standard errors)")
    if np.ptp(np.log10(ax.get_xlim())) < 2.0:
        plain_ticks(ax.xaxis)
    return ax


def hidden_label_errors(ax, table, rungs):
    """Parameter errors of folds of one token against the loss of its label, a mark a fold."""
    looks = RUNGS | {"linear": Style("jackknife, linear weights", "#880e4f", "v")}
    jackknife = RUNGS["infinitesimal_jackknife"]._replace(label="jackknife by factors")
    looks["infinitesimal_jackknife"] = jackknife
    for method in rungs:
        ax.plot(table.loss, table[method], ls="", ms=2, rasterized=True, **looks[method].look)
    ax.set(xscale="log", yscale="log", xlabel="exact held-out loss of the label (nats)")
    ax.set_ylabel("parameter error (standard errors)")
    return ax
