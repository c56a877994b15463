"""The number of states: how often each criterion finds it, what its choice loses, and its price."""

import numpy as np

from acvlib.plots import Style

from .style import COLOURS

CRITERIA = {
    "aic": Style("AIC", COLOURS[3], "v"),
    "bic": Style("BIC", COLOURS[0], "^"),
    "icl": Style("ICL", COLOURS[2], "<"),
    "within": Style("CV of time points", COLOURS[1], "o"),
    "sequence": Style("CV of sequences", COLOURS[4], "s"),
    "future": Style("CV of the future", "#7fd0ff", ">"),
    "half": Style("half-sampling", COLOURS[5], "D"),
}
REGRET = "regret (nats per 1,000 frames)"


def by_difficulty(ax, table, value):
    """A quantity with its interval against the separation of states, one line a criterion.

    table: one row a criterion and separation (0 stands for one state), columns value, value_low and
    value_high.
    """
    separations = sorted(table.index.unique("separation"))
    place = {separation: i for i, separation in enumerate(separations)}
    for number, (name, style) in enumerate(CRITERIA.items()):
        own = table.loc[name]
        x = np.array([place[s] for s in own.index]) + 0.07 * (number - 3)
        y = own[value].to_numpy()
        reach = [y - own[f"{value}_low"], own[f"{value}_high"] - y]
        several = own.index > 0.0
        ax.errorbar(x, y, reach, color=style.colour, marker=style.marker, ls="none", ms=4, lw=1)
        ax.plot(x[several], y[several], lw=1, ms=4, **style.look)
    labels = ["one state" if s == 0.0 else f"{s:g}" for s in separations]
    ax.set_xticks(range(len(separations)), labels)
    ylabel = REGRET if value == "regret" else value
    ax.set(xlabel="distance of states (standard deviations)", ylabel=ylabel)
    return ax
