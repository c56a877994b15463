"""The number of states: how often each criterion finds it, what its choice loses, and its price."""

import numpy as np

from acvlib.plots import RUNGS, Style

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


def directions(ax, table):
    """Shares of too few states, to the left, and of too many, to the right."""
    names = list(CRITERIA)[::-1]
    few = table.too_few[names]
    many = table.too_many[names]
    ax.barh(range(len(names)), -few, color=COLOURS[4], label="too few")
    ax.barh(range(len(names)), many, color=COLOURS[3], label="too many")
    ax.set_yticks(range(len(names)), [CRITERIA[name].label for name in names])
    ax.axvline(0.0, color="black", lw=0.8)
    ax.set(xlabel="share of models")
    most = max(few.max(), many.max())
    ax.set_xlim(-1.1 * most, 1.1 * most)
    ax.xaxis.set_major_formatter(lambda x, _: f"{abs(x):.0%}")
    return ax


def price(ax, table):
    """Regret against processor seconds, fits included; a dotted line joins rungs of a criterion."""
    newton = RUNGS["newton_step"]
    for name, style in CRITERIA.items():
        own = table.loc[name]
        rungs = [rung for rung in ("newton", "exact") if rung in own.index]
        rows = own.loc[rungs or own.index]
        seconds = (rows.seconds + rows.seconds_fit).to_numpy()
        regret = rows.regret.to_numpy()
        ax.plot(seconds, regret, color=style.colour, lw=1, ls=":")
        ax.plot(seconds[-1], regret[-1], ls="none", ms=7, **style.look)
        if rungs:
            look = {"color": style.colour, "marker": newton.marker, "mfc": "white"}
            ax.plot(seconds[0], regret[0], ls="none", ms=7, **look)
    ax.plot([], [], marker=newton.marker, color="black", mfc="white", ls="none", label=newton.label)
    ax.set(xlabel="processor seconds, all candidates", ylabel=REGRET)
    ax.set_ylim(bottom=0.0)
    return ax
