"""The scaled kernels against sums over all paths, and their tangent by its rate."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles.enumerate import log_partition_and_moments

from acvlib.inference import chain, smoothing

LENGTHS = (4, 1, 6)
STARTS = np.cumsum([0, *LENGTHS])


def random_chain(rng, k, spread=1.0):
    density = spread * rng.normal(size=(STARTS[-1], k))
    log = [np.log(rng.dirichlet(np.ones(k), size=size)) for size in (1, k)]
    return density, log[0][0], log[1]


def enumerated(density, log_initial, log_transition):
    """(log Z, gamma, summed pair marginals) of one sequence."""
    node = density.copy()
    node[0] += log_initial
    edge = np.broadcast_to(log_transition, (len(node) - 1, *log_transition.shape))
    log_z, mean, _ = log_partition_and_moments(node, edge)
    n = node.size
    pairs = mean[n:].reshape(edge.shape).sum(axis=0)
    return log_z, mean[:n].reshape(node.shape), pairs


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), spread=st.sampled_from([0.1, 3.0, 300.0]))
def test_smoothing_and_counts_equal_enumeration(seed, k, spread):
    density, initial, transition = random_chain(np.random.default_rng(seed), k, spread)
    smoothed = smoothing.smooth(smoothing.factors(density), STARTS, initial, transition)
    weights = np.array([0.5, 2.0, 1.0])
    counts = smoothing.transition_counts(smoothed, STARTS, weights)
    parts = np.split(density, STARTS[1:-1])
    log_z, gamma, pairs = zip(*[enumerated(x, initial, transition) for x in parts], strict=True)
    assert_allclose(smoothed.log_z, log_z, rtol=1e-12)
    assert_allclose(smoothed.gamma, np.concatenate(gamma), atol=1e-11)
    assert_allclose(counts, np.tensordot(weights, pairs, 1), atol=1e-10)


@pytest.mark.parametrize("far", [0.0, 600.0])
def test_potentials_of_any_scale_an_end_and_forbidden_states(far):
    """As a CRF has them; `far` sends the chain to the sum in logarithms."""
    rng = np.random.default_rng(1)
    density = 3.0 * rng.standard_normal((STARTS[-1], 3))
    density[2, 1] = density[5, 0] = -np.inf
    start, transition = rng.normal(5.0, 2.0, 3), rng.normal(-3.0, 2.0, (3, 3))
    end = rng.normal(size=3)
    transition[0, 1] -= far
    smoothed = smoothing.smooth(smoothing.factors(density), STARTS, start, transition, end)
    counts = smoothing.transition_counts(smoothed, STARTS)
    best = smoothing.best_states(density, STARTS, start, transition, end)
    for n, (a, b) in enumerate(zip(STARTS[:-1], STARTS[1:], strict=True)):
        node = np.maximum(density[a:b], -1e4)
        node[-1] += end
        log_z, gamma, pairs = enumerated(node, start, transition)
        assert_allclose(smoothed.log_z[n], log_z, rtol=1e-12)
        assert_allclose(smoothed.gamma[a:b], gamma, atol=1e-12)
        assert_allclose(counts[n], pairs, atol=1e-12)
        node[0] += start
        score = [
            node[np.arange(b - a), path].sum() + transition[path[:-1], path[1:]].sum()
            for path in map(np.array, product(range(3), repeat=b - a))
        ]
        assert tuple(best[a:b]) == list(product(range(3), repeat=b - a))[np.argmax(score)]


@pytest.mark.parametrize("k", [12, 13])
def test_kernels_of_constant_and_of_any_number_of_states_agree(k):
    density, initial, transition = random_chain(np.random.default_rng(2), k)
    smoothed = smoothing.smooth(smoothing.factors(density), STARTS, initial, transition)
    for n, (a, b) in enumerate(zip(STARTS[:-1], STARTS[1:], strict=True)):
        node = density[a:b].copy()
        node[0] += initial
        edge = np.broadcast_to(transition, (b - a - 1, k, k))
        assert_allclose(smoothed.log_z[n], chain.log_partition(node, edge), rtol=1e-12)
        gamma, xi = chain.marginals(node, edge)
        assert_allclose(smoothed.gamma[a:b], gamma, atol=1e-12)
        pairs = smoothing.transition_counts(smoothed, STARTS)[n]
        assert_allclose(pairs, xi.sum(axis=0), atol=1e-12)
