"""Tuning: what each search has found at what price, and a loss with its slopes."""

import numpy as np

from acvlib.plots import Style

from .style import COLOURS

SEARCHES = {
    "start": Style("start", "0.4", "s"),
    "grid": Style("grid", COLOURS[3], "^"),
    "random": Style("random search", COLOURS[0], "<"),
    "one": Style("one factor for all", COLOURS[4], "v"),
    "tune": Style("tune", COLOURS[1], "o"),
}


def search_progress(ax, curves):
    """Median of the least loss so far, and the middle half of the draws, against the price."""
    for name, values in curves.items():
        price = np.arange(1, values.shape[1] + 1)
        known = np.isfinite(values).all(axis=0)
        low, middle, high = np.quantile(values[:, known], [0.25, 0.5, 0.75], axis=0)
        style = SEARCHES[name]
        ax.plot(price[known], middle, color=style.colour, label=style.label)
        ax.fill_between(price[known], low, high, color=style.colour, alpha=0.15, lw=0)
    ax.set(xlabel="exact cross-validations paid", ylabel="loss above the least found (s.e.)")
    ax.set_ylim(-0.2, 6.0)
    ax.legend()
    return ax


def chosen_on_test(ax, table):
    """Test loss above tune's against cross-validated loss above tune's, one mark a draw."""
    for name, own in table.groupby("search", sort=False):
        if name != "tune":
            ax.plot(own.loss, own.test, ls="none", ms=5, alpha=0.8, **SEARCHES[name].look)
    ax.axhline(0.0, color="black", lw=1)
    ax.axvline(0.0, color="black", lw=1)
    ax.set(
        xlabel="cross-validated loss above tune's (s.e.)", ylabel="test loss above tune's (s.e.)"
    )
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return ax


def loss_with_slopes(ax, table, path):
    """A loss against one hyperparameter, its tangents, and the evaluations of a search."""
    width = 0.25 * np.diff(table.coupling).min()
    ax.plot(table.coupling, table.loss, color="0.4", lw=1)
    for row in table.itertuples():
        reach = np.array([-width, width])
        ax.plot(row.coupling + reach, row.loss + reach * row.slope, color=COLOURS[3], lw=2.5)
    ax.plot(*path, ls="none", ms=6, **SEARCHES["tune"].look)
    for number, (coupling, loss) in enumerate(zip(*path, strict=True)):
        ax.annotate(str(number + 1), (coupling, loss), xytext=(4, 5), textcoords="offset points")
    ax.set(xlabel="coupling", ylabel="cross-validated loss")
    return ax
