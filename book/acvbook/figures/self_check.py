"""Estimated errors of folds beside the true ones."""

import numpy as np

from acvlib.plots import RUNGS

SMALLEST = 1e-4  # errors below are drawn there


def estimated_errors(ax, table, limit):
    """The larger of a fold's two estimated errors against the larger true one, logarithmic."""
    true = np.maximum(table.theta_error, table.loss_error)
    largest = 1e3
    style = {"ls": ":", "color": "black", "lw": 1}
    ax.plot([SMALLEST, largest], [SMALLEST, largest], "--", color="black", lw=1)
    ax.axhline(limit, **style)
    ax.axvline(limit, **style)
    style = RUNGS[table.method.iloc[0]]
    ax.plot(
        np.clip(true, SMALLEST, largest),
        np.clip(table.estimate, SMALLEST, largest),
        style.marker,
        ms=3,
        alpha=0.5,
        color=style.colour,
        mec="none",
        rasterized=True,
    )
    ax.set(xscale="log", yscale="log", xlabel="true error", ylabel="estimated error")
    return ax
