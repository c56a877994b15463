"""Models of JAX beside autograd, and how soon a graph that is too wide is refused."""

import time

import networkx as nx
import numpy as np
from _measure import report
from acvbook.studies import own_model

import acvlib as acv
from acvlib.models import HiddenMRF


def kalman(values):
    """The filter of chapter 2, in JAX."""
    import jax
    import jax.numpy as jnp

    def losses(params, weights):
        drift, noise = jnp.exp(params[:2])

        def step(state, seen):
            (mean, variance), (value, weight) = state, seen
            total, error = variance + noise, value - mean
            gain = weight * variance / total
            state = mean + gain * error, variance * (1 - gain) + drift
            return state, (jnp.log(2 * jnp.pi * total) + error**2 / total) / 2

        return jax.lax.scan(step, (params[2], 10.0), (values, weights))[1]

    def heldout(params, sites):
        return losses(params, jnp.ones(len(values)).at[sites].set(0.0))[sites]

    return acv.from_jax(lambda p, w: w @ losses(p, w), heldout, len(values), start=np.zeros(3))


def kalman_ratio(n_values):
    """One gradient and one Hessian by autograd over the same by JAX; compiling by itself."""
    values = np.random.default_rng(0).standard_normal(n_values)
    model, compiling = own_model.made(lambda: kalman(values))
    table = own_model.beside(model, own_model.KalmanLoop(values), np.zeros(3))
    ratio = table.seconds["autograd"] / table.seconds["ours"]
    report(f"Kalman filter, T = {n_values:,}: autograd over JAX", ratio, 100, at_least=True)
    report(f"Kalman filter, T = {n_values:,}: seconds to compile", compiling)
    name = f"Kalman filter, T = {n_values:,}: largest difference of derivatives, of their size"
    report(name, table.difference["ours"], 1e-8)


def refusal(name, n_sites, graph):
    """Seconds of work until a graph that is too wide is refused."""
    counts = np.arange(n_sites)
    tick = time.process_time()
    try:
        HiddenMRF(counts, graph, coupling=0.5)
    except acv.graph.TooWide:
        report(f"{name}: seconds until it is refused", time.process_time() - tick, 1.0)


def main():
    kalman_ratio(300)
    kalman_ratio(1_000)
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(60, 60))
    refusal("60 x 60 grid", 3_600, grid)
    refusal("complete graph of 200", 200, nx.complete_graph(200))
    refusal(
        "random graph of 5,000, 10,000 edges", 5_000, nx.gnm_random_graph(5_000, 10_000, seed=1)
    )
    refusal(
        "random graph of 5,000, 200,000 edges", 5_000, nx.gnm_random_graph(5_000, 200_000, seed=1)
    )
