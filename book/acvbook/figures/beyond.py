"""What the book adds to the papers: certificates, marks, futures, influence, tuning, states."""

import numpy as np
from matplotlib.collections import PathCollection

from acvlib.plots import RUNGS, Style

from .maps import areas, outline
from .style import COLOURS, plain_ticks

SMALLEST, LARGEST = 1e-4, 1e3  # errors beyond are drawn there


def estimated_errors(ax, table, limit):
    """The larger of a fold's two estimated errors against the larger true one, logarithmic; at the
    edge and grey: what lies beyond.
    """
    places = np.array([np.maximum(table.theta_error, table.loss_error), table.estimate])
    ends = SMALLEST, LARGEST
    ax.plot(ends, ends, "--", color="black", lw=1)
    for line in (ax.axhline, ax.axvline):
        line(limit, ls=":", color="black", lw=1)
    style = RUNGS[table.method.iloc[0]]
    seen = np.clip(places, *ends)
    inside = (seen == places).all(axis=0)
    for rows, colour in ((~inside, "#cccccc"), (inside, style.colour)):
        look = {"ms": 3, "alpha": 0.5, "color": colour, "mec": "none", "rasterized": True}
        ax.plot(*seen[:, rows], style.marker, **look)
    ax.set(xscale="log", yscale="log", xlabel="true error (SE, or SD of losses)")
    ax.set_ylabel("estimated error (same units)")
    return ax


def bound_and_true(ax, checked):
    """Each certified fold's bound against its true error, in standard errors; two certificates."""
    smallest = 1e-9
    for name, colour in (("", "#6d4c41"), ("sharp", "#00838f")):
        found = checked[name]
        seen = found.certificate.certified
        true = np.maximum(found.errors[seen], smallest)
        label = {"": "cheapest proof", "sharp": "all refitted"}[name]
        bound = np.maximum(found.certificate.theta_errors[seen], smallest)
        ax.plot(true, bound, "o", ms=3, alpha=0.5, mec="none", color=colour, label=label)
    ends = np.array([smallest, true.max()])
    ax.plot(ends, ends, "--", color="#222222", lw=1)
    ax.set(xscale="log", yscale="log", xlabel="true error (standard errors)")
    ax.set_ylabel("proved bound (standard errors)")
    return ax


SCHEMES = {
    "nothing": RUNGS["no_adjustment"],
    "weekly": Style("one refit a week", COLOURS[0], "<"),
    "2 refits": Style("leave_future_out, two refits", COLOURS[4], "^"),
    "ours": Style("leave_future_out", COLOURS[1], ">"),
}


def errors_by_price(ax, table, exact_seconds):
    """Median error of a score against seconds, one mark a scheme."""
    for name, row in table.iterrows():
        ax.plot(row.seconds, row.loss, ls="none", ms=7, **SCHEMES[name].look)
    colour = RUNGS["exact"].colour
    ax.axvline(exact_seconds, color=colour, ls=":", lw=1, label="refitting each")
    ax.set(xscale="log", yscale="log", xlabel="seconds", ylabel="median error of a score (nats)")
    ax.set_xlim(0.2 * table.seconds.min(), 5.0 * exact_seconds)
    ax.set_ylim(0.3 * table.loss.min(), 3.0 * table.loss.max())
    return ax


SETS = {"one_shot": Style("one shot", COLOURS[3], "^"), "greedy": Style("greedy", COLOURS[1], "d")}


def predicted_and_exact(ax, table):
    """The change of a conclusion by refits against the sum of the psi, one mark a setting."""
    for method, style in SETS.items():
        predicted = table[f"{method}_linear"]
        exact = table[f"{method}_exact"]
        ax.plot(predicted, exact, ls="none", ms=5, alpha=0.8, **style.look)
    top = float(np.max(table[["one_shot_linear", "one_shot_exact", "greedy_exact"]]))
    ax.plot([0, top], [0, top], "--", color="black", lw=1)
    ax.set(xlabel="predicted change (standard errors)")
    ax.set_ylabel("change by a refit (standard errors)")
    return ax


def influential_areas(ax, data, psi, sites, label):
    """A map of psi, in which the chosen areas have a dark outline; a twentieth is off the scale."""
    most = np.nanquantile(np.abs(psi), 0.95)
    areas(ax, data, psi, label, "PuOr_r", "both", vmin=-most, vmax=most)
    chosen = [outline(data.outlines[site]) for site in sites]
    ax.add_collection(PathCollection(chosen, facecolors="none", edgecolors="black", lw=1.2))
    return ax


SEARCHES = {
    "start": Style("start", "0.4", "s"),
    "grid": Style("grid", COLOURS[3], "^"),
    "random": Style("random search", COLOURS[0], "<"),
    "one": Style("one factor for all", COLOURS[4], "v"),
    "tune": Style("tune", COLOURS[1], "o"),
}


def search_progress(ax, curves, paid):
    """Median of the least loss so far, and the middle half of the draws, against the price, as far
    as each search has paid. The first loss of tune is that of the start.
    """
    start = np.median(curves["tune"][:, np.isfinite(curves["tune"]).all(axis=0).argmax()])
    ax.axhline(start, color=SEARCHES["start"].colour, ls=":", label=SEARCHES["start"].label)
    for name, values in curves.items():
        price = np.arange(1, values.shape[1] + 1)
        known = np.isfinite(values).all(axis=0) & (price <= paid[name])
        low, middle, high = np.quantile(values[:, known], [0.25, 0.5, 0.75], axis=0)
        style = SEARCHES[name]
        ax.plot(price[known], middle, color=style.colour, label=style.label)
        ax.fill_between(price[known], low, high, color=style.colour, alpha=0.15, lw=0)
    ax.set(xlabel="exact cross-validations paid", ylabel="loss above the least (SE)")
    ax.set_ylim(-0.2, max(6.0, 1.1 * start))
    return ax


def phases(ax, needed, n):
    """The cheapest rung that is enough, a square a cell: parameters against sites left out."""
    for rung in [name for name in RUNGS if name in needed.to_numpy()]:
        dims, sizes = (needed.index[needed == rung].get_level_values(i) / n for i in range(2))
        style = RUNGS[rung]
        ax.plot(sizes, dims, "s", ms=17, color=style.colour, label=style.label)
    ax.set(xscale="log", yscale="log")
    plain_ticks(ax.xaxis, ax.yaxis)
    ax.margins(0.08, 0.12)
    ax.set(xlabel="share of the sites left out, k / n", ylabel="parameters a site, d / n")
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), markerscale=0.5, title="enough")
    return ax


def errors_by_seconds(ax, table):
    """Error of the score against processor seconds, a mark a way of cross-validating and an n; the
    training loss, which takes none, is a level for each n.
    """
    ways = {way: rows for way, rows in table.groupby("way", sort=False)}
    for error in ways.pop("training loss").error_se:
        ax.axhline(error, color=RUNGS["no_adjustment"].colour, ls=":", label="doing nothing")
    for (way, rows), colour in zip(ways.items(), COLOURS, strict=False):
        ax.plot(rows.seconds, rows.error_se, "o-", color=colour, label=way, ms=5)
    ax.set(xscale="log", yscale="log", xlabel="processor seconds")
    plain_ticks(ax.xaxis)
    return ax


CRITERIA = {
    "training": Style("training likelihood", RUNGS["no_adjustment"].colour, "X"),
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
        rows = table.loc[name]
        x = np.array([place[s] for s in rows.index]) + 0.07 * (number - 3.5)
        y = rows[value].to_numpy()
        reach = [y - rows[f"{value}_low"], rows[f"{value}_high"] - y]
        several = rows.index > 0.0
        ax.errorbar(x, y, reach, color=style.colour, marker=style.marker, ls="none", ms=4, lw=1)
        ax.plot(x[several], y[several], lw=1, ms=4, **style.look)
    labels = ["one state" if s == 0.0 else f"{s:g}" for s in separations]
    ax.set_xticks(range(len(separations)), labels)
    ylabel = REGRET if value == "regret" else value
    ax.set(xlabel="distance of states (standard deviations)", ylabel=ylabel)
    return ax
