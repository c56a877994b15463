"""Lanes of two-state chains against the general chain and enumeration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from acvlib.inference import chain, two_state
from acvlib.inference.two_state import BLOCK, N_LANES, Chains
from acvlib.weighting import keep_latents


def moves_of(stay):
    """The transition matrix (2, 2, ...) of P(0 -> 0) and P(1 -> 1), (2, ...)."""
    return np.array([[stay[0], 1.0 - stay[0]], [1.0 - stay[1], stay[1]]])


def potentials(classes, weights, table, stay):
    """Of the chain with an unobserved first site."""
    density = np.concatenate([np.zeros((1, 2)), table[classes]])
    leave = 1.0 - stay
    initial = np.log(leave[::-1]) - np.log(leave.sum())
    weights = np.concatenate([[0.0], weights])
    return chain.potentials(keep_latents, weights, density, initial, np.log(moves_of(stay)))


def lane_problem(n_sites, scale=1.0):
    """Classes, kept sites, each lane's own table, stay (2, B) and left-out sites."""
    rng = np.random.default_rng(6)
    classes = rng.integers(0, 4, n_sites).astype(np.int32)
    table = scale * rng.standard_normal((2, 4, N_LANES))
    table -= table.max(axis=0)
    stay = rng.uniform(0.5, 0.98, (2, N_LANES))
    observed = rng.random(n_sites) < 0.9
    left_out = [np.flatnonzero(rng.random(n_sites) < 0.2) for _ in range(N_LANES)]
    keep = np.repeat(observed[:, None], N_LANES, axis=1)
    for b, sites in enumerate(left_out):
        keep[sites, b] = False
    return classes, keep, table, stay, left_out


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("n_sites", [1, 15, 16, 17, BLOCK, BLOCK + 1, 2 * BLOCK + 700])
def test_every_lane_equals_its_own_chain(n_sites, scale):
    classes, keep, table, stay, left_out = lane_problem(n_sites, scale)
    sites, ends = np.concatenate(left_out), np.cumsum([0, *map(len, left_out)])
    chains = Chains(classes, keep, np.exp(table), moves_of(stay))
    log_z, event, statistics, *_ = two_state.smooth(chains)
    density = two_state.smooth(chains, left_out=(sites, ends)).density
    for b in (0, 1, 17, N_LANES - 1):
        weights = keep[:, b].astype(float)
        own = table[:, :, b].T.copy()
        node, edge = potentials(classes, weights, own, stay[:, b])
        assert_allclose(log_z[b], chain.log_partition(node, edge), rtol=1e-12)
        gamma, xi = chain.marginals(node, edge)
        in_event = gamma[:, 1]
        by_class = np.bincount(classes, weights * in_event[1:], 4)
        assert_allclose(event[:, b], by_class, rtol=1e-9, atol=1e-12)
        expected = [in_event[0], in_event[-1], xi[:, 0, 1].sum(), in_event[:-1].sum()]
        assert_allclose(statistics[:, b], expected, rtol=1e-9, atol=1e-12)
        at = np.exp(own[classes[left_out[b]]])
        expected = (gamma[1:][left_out[b]] * at).sum(axis=1)
        assert_allclose(density[ends[b] : ends[b + 1]], expected, rtol=1e-9)
    again = two_state.smooth(chains)
    assert_allclose(np.vstack(again[:3]), np.vstack([log_z, event, statistics]), rtol=0, atol=0)
