"""How soon a graph that is too wide is refused."""

import time

import networkx as nx
import numpy as np
from _measure import report

import acvlib as acv
from acvlib.models import HiddenMRF


def refusal(name, n_sites, graph):
    """Seconds of work until a graph that is too wide is refused."""
    counts = np.arange(n_sites)
    tick = time.process_time()
    try:
        HiddenMRF(counts, graph, coupling=0.5)
    except acv.graph.TooWide:
        report(f"{name}: seconds until it is refused", time.process_time() - tick, 1.0)


def main():
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(60, 60))
    refusal("60 x 60 grid", 3_600, grid)
    refusal("complete graph of 200", 200, nx.complete_graph(200))
    refusal(
        "random graph of 5,000, 10,000 edges", 5_000, nx.gnm_random_graph(5_000, 10_000, seed=1)
    )
    refusal(
        "random graph of 5,000, 200,000 edges", 5_000, nx.gnm_random_graph(5_000, 200_000, seed=1)
    )
