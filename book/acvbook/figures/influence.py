"""The most influential sites: what was predicted of leaving them out, and what refits say."""

import numpy as np
from matplotlib.collections import PathCollection

from .maps import _path, areas

COLOURS = {"one_shot": "#8d99ae", "greedy": "#1d6fb8"}
LABELS = {"one_shot": "one shot", "greedy": "greedy"}


def predicted_and_exact(ax, table):
    """The change of a conclusion by refits against the sum of the psi, one mark a setting."""
    for method, colour in COLOURS.items():
        predicted = table[f"{method}_linear"]
        exact = table[f"{method}_exact"]
        ax.plot(predicted, exact, "o", ms=4, alpha=0.7, color=colour, label=LABELS[method])
    top = float(np.max(table[["one_shot_linear", "one_shot_exact", "greedy_exact"]]))
    ax.plot([0, top], [0, top], "--", color="#222222", lw=1)
    ax.set(xlabel="predicted change (standard errors)", ylabel="change by a refit")
    ax.legend(fontsize="small")
    return ax


def influential_areas(ax, data, psi, sites, label):
    """A map of psi, in which the chosen areas have a dark outline."""
    most = np.nanmax(np.abs(psi))
    areas(ax, data, psi, label, "PuOr_r", vmin=-most, vmax=most)
    chosen = [_path(data.outlines[site]) for site in sites]
    ax.add_collection(PathCollection(chosen, facecolors="none", edgecolors="#111111", lw=1.2))
    return ax
