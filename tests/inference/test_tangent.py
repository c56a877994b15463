"""How posteriors move with potentials, against the tangent of the chain in logarithms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from acvlib.inference import chain
from acvlib.inference.smoothing import factors, smooth
from acvlib.inference.tangent import tangent

STARTS = np.array([0, 1, 6, 8, 20])  # one sequence of a single row


@pytest.mark.parametrize("n_states", [1, 2, 3, 14])
@pytest.mark.parametrize("forbidden", [False, True])
@pytest.mark.parametrize("spread", [1.0, 1000.0])
def test_tangents_are_those_of_chains_in_logarithms(n_states, forbidden, spread):
    rng = np.random.default_rng(n_states)
    node = rng.normal(0.0, 2.0, (20, n_states))
    if forbidden:
        node[3, 1:] = -np.inf
        node[19, 1:] = -np.inf
    start, end = rng.normal(size=(2, n_states))
    transition = rng.normal(size=(n_states, n_states))
    transition[0, 0] += spread  # from 460 on, smoothing sums in logarithms
    field = rng.normal(size=node.shape)
    move = rng.normal(size=transition.shape)
    weights = rng.uniform(size=4)
    smoothed = smooth(factors(node), STARTS, start, transition, end)
    d_gamma, d_moves = tangent(smoothed[1:], STARTS, weights, field, move)
    expected = np.zeros_like(d_moves)
    for n, weight in enumerate(weights):
        own = slice(STARTS[n], STARTS[n + 1])
        potentials = np.maximum(node[own], -700.0)
        potentials[0] += start
        potentials[-1] += end
        shape = (len(potentials) - 1, n_states, n_states)
        edges = [np.broadcast_to(part, shape) for part in (transition, move)]
        d_node, d_edge = chain._tangent(potentials, edges[0], field[own], edges[1])
        assert_allclose(d_gamma[own], weight * d_node, atol=1e-12)
        expected += weight * d_edge.sum(axis=0)
    assert_allclose(d_moves, expected, atol=1e-11)
