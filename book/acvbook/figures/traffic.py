"""What many draws of folds say of each rung."""

import numpy as np

from acvlib.plots import RUNGS


def spread_by_setting(ax, table, ylabel):
    """Median and 10 to 90 % of draws, by setting and rung, on a logarithmic axis; a cross is the
    worst draw. table: rows (kind, percent, draw), a column a rung, of numbers that are better when
    smaller.
    """
    groups = table.groupby(level=[0, 1], sort=False)
    low, middle, high = (groups.quantile(q) for q in (0.1, 0.5, 0.9))
    places = np.arange(len(middle))
    for method, shift in zip(table, np.linspace(-0.27, 0.27, table.shape[1]), strict=True):
        look = RUNGS[method].look
        reach = [middle[method] - low[method], high[method] - middle[method]]
        ax.errorbar(places + shift, middle[method], reach, ls="", ms=4, **look)
        ax.plot(places + shift, groups.max()[method], "x", ms=4, color=look["color"])
    ax.set_xticks(places, [f"{kind}\n{percent} %" for kind, percent in middle.index])
    ax.set(yscale="log", ylabel=ylabel)
    return ax
