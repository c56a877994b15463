"""Approximate cross-validation with pairs: losses, criteria over a grid, seconds, rates."""

from acvlib.plots import RUNGS, Style

from .style import COLOURS, differences, lines, scatter

EXACT, IJ = RUNGS["exact"], RUNGS["infinitesimal_jackknife"]
WAYS = {
    "cv": EXACT._replace(label="t-fold CV, fold by fold"),
    "acv": IJ._replace(label="approximate CV"),
    "shared": Style("exact, sums shared", COLOURS[1], "h"),
}


def both_panels(axes, results, rungs):
    """Figures 1 to 3 of the paper: losses on the left, what leaving out adds on the right."""
    exact, none, *others = (results[name] for name in ("exact", "no_adjustment", *rungs))
    scatter(axes[0], exact, none, *others).set(xlabel="actual loss (nats)")
    differences(axes[1], exact, none, *others).set(xlabel="actual difference in loss")
    return axes


def pair_differences(ax, losses, rungs):
    """What leaving out adds to each pair's loss: predicted by rungs, against retrained."""
    x = losses.retrained - losses.full
    ax.plot([x.min(), x.max()], [x.min(), x.max()], "k--", lw=0.8, zorder=3)
    for rung in rungs:
        y = losses[rung] - losses.full
        ax.plot(x, y, ls="", ms=3, rasterized=True, **RUNGS[rung].look)
    ax.set(xlabel="difference after retraining", ylabel="predicted difference in loss")
    return ax


def criteria(ax, table):
    """Each rung's cross-validated loss against the exact one, a mark a pair of gammas."""
    ends = [table.exact.min(), table.exact.max()]
    ax.plot(ends, ends, "k--", lw=0.8)
    for method in table.columns.intersection(list(RUNGS)).drop("exact"):
        ax.plot(table.exact, table[method], ls="", ms=4, **RUNGS[method].look)
    ax.set_xlabel("exact 20-fold CV")
    return ax


def seconds_by_folds(ax, table):
    """Seconds of each of WAYS (columns) against the number of folds, the index."""
    lines(ax, table, WAYS, yscale="log", xlabel="folds", ylabel="seconds")
    ax.set_xticks(table.index)
    ax.yaxis.set_minor_formatter("")
    return ax
