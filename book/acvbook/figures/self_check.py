"""Estimated errors of folds beside the true ones."""

import numpy as np

from acvlib.plots import RUNGS

SMALLEST = 1e-4  # errors below are drawn there


def estimated_errors(ax, table, limit):
    """The larger of a fold's two estimated errors against the larger true one, logarithmic."""
    true = np.maximum(table.theta_error, table.loss_error)
    largest = 1e3
    style = {"ls": ":", "color": "#6c757d", "lw": 1}
    ax.plot([SMALLEST, largest], [SMALLEST, largest], "--", color="#222222", lw=1)
    ax.axhline(limit, **style)
    ax.axvline(limit, **style)
    colour = RUNGS[table.method.iloc[0]][1]
    ax.plot(
        np.clip(true, SMALLEST, largest),
        np.clip(table.estimate, SMALLEST, largest),
        "o",
        ms=3,
        alpha=0.5,
        color=colour,
        mec="none",
        rasterized=True,
    )
    ax.set(xscale="log", yscale="log", xlabel="true error", ylabel="estimated error")
    return ax
