"""Sequences and their cross-validation: recordings, losses of left-out sequences, costs."""

import numpy as np

from acvlib.plots import RUNGS, Style

from .style import COLOURS, NEW_DATA

_TEST = NEW_DATA._replace(label="test sequences")


def channels(ax, sequence, rate, labels, states=None):
    """One line a channel of a recording (T, R) against seconds; states (T,) as shades."""
    seconds, step = np.arange(len(sequence)) / rate, 1.1 * np.ptp(sequence, axis=0).max()
    if states is not None:
        _shade(ax, seconds, states)
    for place in range(len(labels)):
        ax.plot(seconds, sequence[:, place] - step * place, lw=1, color="black")
    ax.set_yticks(-step * np.arange(len(labels)), labels)
    ax.set(xlabel="seconds", xlim=(0, seconds[-1]))
    ax.grid(visible=False)
    return ax


def _shade(ax, seconds, states):
    cuts = np.flatnonzero(np.diff(states, prepend=-1))
    for first, last in zip(cuts, [*cuts[1:], len(states) - 1], strict=True):
        ax.axvspan(seconds[first], seconds[last], color=f"C{states[first] % 6}", alpha=0.25, lw=0)


def rung_scatter(ax, rungs, losses=lambda result: result.fold_totals):
    """Losses by each rung against those of the exact refits, with the line of agreement;
    `rungs` by method.

    Crosses: Newton steps of folds whose Hessian is indefinite at the full fit. Newton steps do not
    set the scale: triangles at an edge are beyond it.
    """
    values = {method: losses(result) for method, result in rungs.items()}
    exact = values["exact"]
    ends = [exact.min(), exact.max()]
    ax.plot(ends, ends, "k--", lw=0.8, zorder=0)
    ax.set_ylim(
        *_scale(np.concatenate([v for method, v in values.items() if method != "newton_step"]))
    )
    for method, result in rungs.items():
        if method != "exact":
            _dots(ax, exact, values[method], _indefinite(result, len(exact)), RUNGS[method])
    ax.set(xlabel="loss, exact refit (nats)", ylabel="loss, rung (nats)")
    return ax


def _scale(values):
    """(low, high): the range of values, and half of its height above and below."""
    low, high = values.min(), values.max()
    return low - 0.5 * (high - low), high + 0.5 * (high - low)


def _dots(ax, exact, values, indefinite, style):
    settings = {"ms": 4, "color": style.colour, "rasterized": True}
    _beyond(ax, exact, values, **settings)
    known = {"label": style.label, **settings}
    ax.plot(exact[~indefinite], values[~indefinite], style.marker, **known)
    ax.plot(exact[indefinite], values[indefinite], "x", **settings)


def _beyond(ax, x, y, **style):
    """Triangles at the edge of the axes for points (x, y) above or below it."""
    low, high = ax.get_ylim()
    for outside, edge, marker in ((y > high, high, "^"), (y < low, low, "v")):
        if outside.any():
            ax.plot(x[outside], np.full(outside.sum(), edge), marker, clip_on=False, **style)


def _indefinite(result, n_losses):
    """Whether each loss is of a fold that the Newton step marks, (n_losses,)."""
    marked = np.zeros(len(result.folds), bool)
    if result.indefinite is not None:
        marked = result.indefinite
    return (
        marked
        if n_losses == len(marked)
        else np.repeat(marked, [len(fold) for fold in result.folds])
    )


def losses_with_errors(ax, table, columns, xlabel):
    """Means and two standard errors by model, the index of `mocap_orders.losses`: rungs,
    and test sequences.

    Newton steps do not set the scale, as in `rung_scatter`.
    """
    places, means = np.arange(len(table)), table[columns].to_numpy(float)
    errors = 2 * table[[f"se_{column}" for column in columns]].to_numpy(float)
    steady = [i for i, column in enumerate(columns) if column != "newton_step"]
    ax.set_ylim(*_scale((means[:, :, None] + errors[:, :, None] * [-1, 1])[:, steady]))
    for i, shift in enumerate(np.linspace(-0.3, 0.3, len(columns))):
        style = RUNGS.get(columns[i], _TEST)
        _beyond(ax, places + shift, means[:, i], ms=5, color=style.colour)
        settings = {"ls": "", "ms": 4, "capsize": 2, **style.look}
        ax.errorbar(places + shift, means[:, i], errors[:, i], **settings)
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
        named.values(),
        named.keys(),
        loc="outside lower center",
        ncols=ncols,
        markerscale=1.6,
    )
    return fig
