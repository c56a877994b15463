"""Sequences and their cross-validation: recordings, losses of left-out sequences, costs."""

import numpy as np

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
