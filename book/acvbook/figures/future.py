"""Leave-future-out: how parameters move from origin to origin, and what each scheme costs."""

SCHEMES = {
    "nothing": ("no adjustment", "#8d99ae"),
    "weekly": ("one refit a week", "#e07a1f"),
    "psis": ("PSIS-LFO's scheme", "#6a4c93"),
    "2 refits": ("leave_future_out, two refits", "#1d6fb8"),
    "ours": ("leave_future_out", "#1d6fb8"),
}


def moving_params(ax, times, values, refits):
    """One parameter at every origin by each scheme; refits: (times, values) as dots."""
    ax.plot(times, values["nothing"], "--", color=SCHEMES["nothing"][1], label="full fit")
    ax.plot(times, values["weekly"], color=SCHEMES["weekly"][1], lw=1, label="one refit a week")
    ax.plot(times, values["ours"], color=SCHEMES["ours"][1], lw=1.2, label="leave_future_out")
    ax.plot(*refits, "o", ms=3, color="#222222", label="exact refits", zorder=3)
    ax.legend(fontsize="small")
    return ax


def errors_by_price(ax, table, exact_seconds):
    """Median error of a score against seconds, one mark a scheme."""
    for name, row in table.iterrows():
        label, colour = SCHEMES[name]
        ax.plot(row.seconds, row.loss, "o", color=colour)
        place = (row.seconds, row.loss)
        ax.annotate(label, place, (0, 7), textcoords="offset points", fontsize=8, ha="center")
    ax.axvline(exact_seconds, color="#222222", ls=":", lw=1, label="refitting each")
    ax.legend(fontsize="small")
    ax.set(xscale="log", yscale="log", xlabel="seconds", ylabel="median error of a score (nats)")
    ax.set_xlim(0.2 * table.seconds.min(), 5.0 * exact_seconds)
    ax.set_ylim(0.5 * table.loss.min(), 4.0 * table.loss.max())
    return ax
