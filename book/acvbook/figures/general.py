"""Approximate cross-validation with pairs: losses, and what leaving out adds to them."""

from acvlib.plots import RUNGS

from .style import differences, scatter


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
