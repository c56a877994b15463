"""Leave-future-out: how parameters move from origin to origin, and what each scheme costs."""

from matplotlib.dates import ConciseDateFormatter

from acvlib.plots import RUNGS, Style

from .style import COLOURS

SCHEMES = {
    "nothing": RUNGS["no_adjustment"],
    "weekly": Style("one refit a week", COLOURS[0], "<"),
    "psis": Style("PSIS-LFO's scheme", COLOURS[3], "h"),
    "2 refits": Style("leave_future_out, two refits", COLOURS[4], "^"),
    "ours": Style("leave_future_out", COLOURS[1], ">"),
}


def moving_params(ax, times, values, refits):
    """One parameter at every origin by each scheme; refits: (times, values) as marks."""
    for name, numbers in values.items():
        style = SCHEMES[name]
        ax.plot(times, numbers, color=style.colour, label=style.label, lw=1.2)
    exact = RUNGS["exact"]
    ax.plot(*refits, ls="none", ms=4, zorder=3, **exact.look)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(ax.xaxis.get_major_locator()))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15))
    return ax


def errors_by_price(ax, table, exact_seconds):
    """Median error of a score against seconds, one mark a scheme."""
    for name, row in table.iterrows():
        ax.plot(row.seconds, row.loss, ls="none", ms=7, **SCHEMES[name].look)
    colour = RUNGS["exact"].colour
    ax.axvline(exact_seconds, color=colour, ls=":", lw=1, label="refitting each")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15))
    ax.set(xscale="log", yscale="log", xlabel="seconds", ylabel="median error of a score (nats)")
    ax.set_xlim(0.2 * table.seconds.min(), 5.0 * exact_seconds)
    ax.set_ylim(0.3 * table.loss.min(), 3.0 * table.loss.max())
    return ax
