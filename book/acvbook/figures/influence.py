"""The most influential sites: what was predicted of leaving them out, and what refits say."""

import numpy as np
from matplotlib.collections import PathCollection

from acvlib.plots import Style

from .maps import areas, outline
from .style import COLOURS

SEARCHES = {
    "one_shot": Style("one shot", COLOURS[3], "^"),
    "greedy": Style("greedy", COLOURS[1], "d"),
}


def predicted_and_exact(ax, table):
    """The change of a conclusion by refits against the sum of the psi, one mark a setting."""
    for method, style in SEARCHES.items():
        predicted = table[f"{method}_linear"]
        exact = table[f"{method}_exact"]
        ax.plot(predicted, exact, ls="none", ms=5, alpha=0.8, **style.look)
    top = float(np.max(table[["one_shot_linear", "one_shot_exact", "greedy_exact"]]))
    ax.plot([0, top], [0, top], "--", color="black", lw=1)
    ax.set(xlabel="predicted change (standard errors)", ylabel="change by a refit")
    ax.legend()
    return ax


def influential_areas(ax, data, psi, sites, label):
    """A map of psi, in which the chosen areas have a dark outline."""
    most = np.nanmax(np.abs(psi))
    areas(ax, data, psi, label, "PuOr_r", vmin=-most, vmax=most)
    chosen = [outline(data.outlines[site]) for site in sites]
    ax.add_collection(PathCollection(chosen, facecolors="none", edgecolors="black", lw=1.2))
    return ax
