"""Approximate cross-validation with pairs: losses, criteria over a grid, seconds, rates."""

import numpy as np

from acvlib.plots import RUNGS, Style

from .style import COLOURS, lines

EXACT, IJ = RUNGS["exact"], RUNGS["infinitesimal_jackknife"]
WAYS = {
    "cv": EXACT._replace(label="t-fold CV, fold by fold"),
    "acv": IJ._replace(label="approximate CV"),
    "shared": Style("exact, sums shared", COLOURS[1], "h"),
}


def predicted_losses(ax, reference, *others):
    """Pointwise held-out losses of several results against the reference's."""
    x = np.concatenate(reference.losses)
    ax.plot([x.min(), x.max()], [x.min(), x.max()], "k--", lw=0.8, zorder=3)
    for result in others:
        y = np.concatenate(result.losses)
        ax.plot(x, y, ls="", ms=2, rasterized=True, **RUNGS[result.method].look)
    ax.set(xlabel="actual loss (nats)", ylabel="predicted loss (nats)")
    return ax


def both_panels(axes, results, rungs):
    """Figures 1 to 3 of the paper: losses on the left, what leaving out adds on the right."""
    predicted_losses(
        axes[0], results["exact"], results["no_adjustment"], *(results[rung] for rung in rungs)
    )
    losses = {
        name: np.concatenate(results[name].losses) for name in ("exact", "no_adjustment", *rungs)
    }
    _differences(axes[1], losses, rungs, "exact", "no_adjustment")
    axes[1].set_xlabel("actual difference in loss")
    return axes


def _differences(ax, losses, rungs, reference, base):
    x = losses[reference] - losses[base]
    ax.plot([x.min(), x.max()], [x.min(), x.max()], "k--", lw=0.8, zorder=3)
    for rung in rungs:
        y = losses[rung] - losses[base]
        ax.plot(x, y, ls="", ms=3, rasterized=True, **RUNGS[rung].look)
    ax.set_ylabel("predicted difference in loss")


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


def pair_differences(ax, losses, rungs):
    """What leaving out adds to each pair's loss: predicted by rungs, against retrained."""
    _differences(ax, losses, rungs, "retrained", "full")
    ax.set_xlabel("difference after retraining")
    return ax
