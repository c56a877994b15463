"""The two-state kernels, one chain and lanes, against the general chain and enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles.enumerate import log_partition_and_moments
from oracles.refit import central_difference
from scipy.special import expit

from acvlib.inference import chain, hidden_chain, two_state
from acvlib.inference.two_state import BLOCK, N_LANES, N_PARAMS, Chains
from acvlib.models.traffic.emission import WIDTH
from acvlib.models.traffic.tangents import tangents
from acvlib.weighting import keep_latents

STAY = np.array([0.9, 0.75])


def moves_of(stay):
    """The transition matrix (2, 2, ...) of P(0 -> 0) and P(1 -> 1), (2, ...)."""
    return np.array([[stay[0], 1.0 - stay[0]], [1.0 - stay[1], stay[1]]])


TRANSITION = moves_of(STAY)


def log_chain(stay):
    """Stationary law and transitions, as logarithms."""
    leave = 1.0 - stay
    initial = np.log([leave[1], leave[0]]) - np.log(leave.sum())
    return initial, np.log([[stay[0], leave[0]], [leave[1], stay[1]]])


def series(seed, n_sites, n_classes=5, scale=1.0):
    """(classes, weights between 0 and 1, log emission table with row maximum 0)."""
    rng = np.random.default_rng(seed)
    table = scale * rng.standard_normal((n_classes, 2))
    weights = rng.choice([0.0, 1.0, 0.3, 0.8], n_sites)
    return (
        rng.integers(0, n_classes, n_sites).astype(np.int32),
        weights,
        table - table.max(axis=1, keepdims=True),
    )


def smooth_alone(classes, weights, table, transition):
    """One fold of any weights: each site is a class of its own, that has its weight in it."""
    emission = np.exp(weights[:, None] * table[classes]).T[:, :, None]
    sites = np.arange(len(classes))
    chains = Chains(sites, weights[:, None] > 0, emission, transition[:, :, None])
    found = two_state.smooth(chains)
    event = np.bincount(classes, weights * found.event[:, 0], len(table))
    return found._replace(log_z=found.log_z[0], event=event, statistics=found.statistics[:, 0])


def by_chain(classes, weights, table, stay):
    """(log Z, P(z_t = 1) (T,), moves 0 -> 1 after the first site) by the general kernels."""
    node, edge = hidden_chain.potentials(keep_latents, weights, table[classes], *log_chain(stay))
    gamma, xi = chain.marginals(node, edge)
    return chain.log_partition(node, edge), gamma[:, 1], xi[:, 0, 1].sum()


def enumerated(classes, weights, table, stay):
    """(log Z, mean, covariance) of all indicators, the unobserved first site among them."""
    density = np.concatenate([np.zeros((1, 2)), table[classes]])
    weights = np.concatenate([[0.0], weights])
    return log_partition_and_moments(
        *hidden_chain.potentials(keep_latents, weights, density, *log_chain(stay))
    )


@settings(max_examples=30)
@given(
    st.integers(0, 10_000),
    st.integers(1, 70),
    st.floats(-4, 6),
    st.floats(-4, 6),
    st.sampled_from([0.1, 2, 20]),
)
def test_smoothing_equals_the_general_chain(seed, n_sites, logit0, logit1, scale):
    classes, weights, table = series(seed, n_sites, scale=scale)
    stay = expit(np.array([logit0, logit1]))
    log_z, event, statistics, *_ = smooth_alone(classes, weights, table, moves_of(stay))
    expected, marginal, later_moves = by_chain(classes, weights, table, stay)
    assert_allclose(log_z, expected, rtol=1e-11, atol=1e-11)
    by_class = np.bincount(classes, weights * marginal, len(table))
    assert_allclose(event, by_class, rtol=0, atol=1e-9)
    assert_allclose(statistics[1], marginal[-1], rtol=0, atol=1e-10)
    assert_allclose(statistics[3] - statistics[0], marginal[:-1].sum(), rtol=0, atol=1e-9)
    # the one move more is from site 0 to the first
    assert -1e-9 <= statistics[2] - later_moves <= 1.0 + 1e-9


@pytest.mark.parametrize(
    "weights", [np.ones(7), np.zeros(7), np.linspace(0, 1, 7)], ids=["1", "0", "between"]
)
def test_smoothing_equals_enumeration_with_the_unobserved_first_site(weights):
    classes, _, table = series(1, 7)
    expected, mean, _ = enumerated(classes, weights, table, STAY)
    gamma, xi = mean[:16].reshape(8, 2)[:, 1], mean[16:].reshape(7, 2, 2)
    log_z, event, statistics, *_ = smooth_alone(classes, weights, table, TRANSITION)
    assert_allclose(log_z, expected, rtol=0, atol=1e-10)
    assert_allclose(event, np.bincount(classes, weights * gamma[1:], 5), rtol=0, atol=1e-10)
    counts = [gamma[0], gamma[-1], xi[:, 0, 1].sum(), gamma[:-1].sum()]
    assert_allclose(statistics, counts, rtol=0, atol=1e-10)


def test_messages_hold_filtered_probabilities_and_not_smoothed_ones():
    classes, weights, table = series(2, 6)
    filtered = smooth_alone(classes, weights, table, TRANSITION).messages[:, :2]
    past = [by_chain(classes[:t], weights[:t], table, STAY)[1][-1] for t in range(1, 6)]
    assert_allclose(filtered[1:, 1], past, rtol=0, atol=1e-12)
    assert_allclose(filtered[0], [0.25 / 0.35, 0.1 / 0.35], rtol=1e-14)
    assert_allclose(filtered.sum(axis=1), 1.0, rtol=1e-14)


def scores(n_classes, n_params=9, seed=3):
    """Gradients (n_classes, WIDTH), quiet and ratio, in the first parameters."""
    tables = np.zeros((2, n_classes, WIDTH))
    tables[:, :, :n_params] = np.random.default_rng(seed).standard_normal((2, n_classes, n_params))
    return tables


def test_tangents_equal_central_differences():
    classes, weights, table = series(6, 40, 6)
    quiet, ratio = scores(6)

    def moved(p):
        """d log Z / dw, expected events of classes and statistics at moved params."""
        shifted = table + np.stack([quiet @ p, (quiet + ratio) @ p], axis=1)
        stay = expit(np.log(STAY / (1.0 - STAY)) + p[9:11])
        _, gamma, _ = by_chain(classes, weights, shifted, stay)
        cross = (1.0 - gamma) * shifted[classes, 0] + gamma * shifted[classes, 1]
        again = smooth_alone(classes, weights, shifted, moves_of(stay))
        return np.concatenate([cross, again.event, again.statistics])

    contrast = table[:, 1] - table[:, 0]
    messages = smooth_alone(classes, weights, table, TRANSITION).messages
    found = tangents(classes, weights, messages, TRANSITION, quiet, ratio, contrast)
    expected = central_difference(moved, np.zeros(WIDTH))
    assert_allclose(np.concatenate(found), expected, rtol=0, atol=1e-8)


def test_rare_moves_that_the_data_force_at_every_step_stay_finite():
    """Sixteen normalisers are multiplied between logarithms: here each one is about 1e-25."""
    stay, table = np.array([0.5, 1e-25]), np.array([[-200.0, 0.0]])
    classes, weights = np.zeros(64, np.int32), np.ones(64)
    log_z, event, *_ = smooth_alone(classes, weights, table, moves_of(stay))
    expected, marginal, _ = by_chain(classes, weights, table, stay)
    assert_allclose(log_z, expected, rtol=1e-12)
    assert_allclose(event, [marginal.sum()], rtol=1e-10)


# lanes


def lane_problem(n_sites, seed=6):
    """Classes, kept sites, each lane's own table, stay (2, B) and left-out sites."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 4, n_sites).astype(np.int32)
    table = rng.standard_normal((2, 4, N_LANES))
    table -= table.max(axis=0)
    stay = rng.uniform(0.5, 0.98, (2, N_LANES))
    observed = rng.random(n_sites) < 0.9
    left_out = [np.flatnonzero(rng.random(n_sites) < 0.2) for _ in range(N_LANES)]
    keep = np.repeat(observed[:, None], N_LANES, axis=1)
    for b, sites in enumerate(left_out):
        keep[sites, b] = False
    return classes, keep, table, stay, left_out


@pytest.mark.parametrize("n_sites", [1, 15, 16, 17, BLOCK, BLOCK + 1, 2 * BLOCK + 700])
def test_every_lane_equals_its_own_chain(n_sites):
    classes, keep, table, stay, left_out = lane_problem(n_sites)
    sites, ends = np.concatenate(left_out), np.cumsum([0, *map(len, left_out)])
    chains = Chains(classes, keep, np.exp(table), moves_of(stay))
    log_z, event, statistics, *_ = two_state.smooth(chains)
    density = two_state.smooth(chains, left_out=(sites, ends)).density
    for b in (0, 1, 17, N_LANES - 1):
        weights = keep[:, b].astype(float)
        own = table[:, :, b].T.copy()
        alone = smooth_alone(classes, weights, own, moves_of(stay[:, b]))
        assert_allclose(log_z[b], alone.log_z, rtol=1e-12)
        assert_allclose(event[:, b], alone.event, rtol=1e-10, atol=1e-12)
        assert_allclose(statistics[:, b], alone.statistics, rtol=1e-10, atol=1e-12)
        expected, marginal, _ = by_chain(classes, weights, own, stay[:, b])
        assert_allclose(log_z[b], expected, rtol=1e-12)
        marginal = marginal[left_out[b]]
        at = np.exp(own[classes[left_out[b]]])
        expected = (1 - marginal) * at[:, 0] + marginal * at[:, 1]
        assert_allclose(density[ends[b] : ends[b + 1]], expected, rtol=1e-9)
    again = two_state.smooth(chains)
    assert_allclose(np.vstack(again[:3]), np.vstack([log_z, event, statistics]), rtol=0, atol=0)


def variance_problem(n_sites):
    """Lanes with scores in three of all parameters, and the variance of each."""
    classes, keep, table, stay, _ = lane_problem(n_sites)
    places = np.array([[c // 2, 7, 8] for c in range(4)])
    score = np.random.default_rng(7).standard_normal((3, 4, N_LANES))
    chains = Chains(classes, keep, np.exp(table), moves_of(stay))
    ratio = np.zeros((N_LANES, 4, WIDTH))
    np.put_along_axis(ratio, places[None], score.T, 2)
    return classes, keep, table, stay, ratio, two_state.smooth(chains, (score, places)).variance


def test_variance_of_the_score_equals_enumeration():
    classes, keep, table, stay, ratio, found = variance_problem(7)
    for b in (0, 5, N_LANES - 1):
        weights = keep[:, b].astype(float)
        _, _, covariance = enumerated(classes, weights, table[:, :, b].T, stay[:, b])
        gradient = np.zeros((len(covariance), N_PARAMS))  # of a path's score in its indicators
        nodes, edges = gradient[:16].reshape(8, 2, -1), gradient[16:].reshape(7, 2, 2, -1)
        nodes[1:, 1] = weights[:, None] * ratio[b, classes, :N_PARAMS]
        nodes[0, 1, 9:] = [-stay[0, b], stay[1, b]]  # of logit P(z_0 = 1)
        edges[:, 0, 0, 9] = edges[:, 0, 1, 9] + 1.0 - stay[0, b]
        edges[:, 0, 1, 9] = -stay[0, b]
        edges[:, 1, 1, 10] = 1.0 - stay[1, b]
        edges[:, 1, 0, 10] = -stay[1, b]
        expected = gradient.T @ covariance @ gradient
        assert_allclose(found[..., b], expected, rtol=0, atol=1e-10)


def test_variance_of_the_score_is_the_tangent_of_the_score_over_many_blocks():
    """In log-linear emissions the expected score's derivative is its variance alone."""
    classes, keep, table, stay, ratio, found = variance_problem(2 * BLOCK + 100)
    for b in (0, 5, N_LANES - 1):
        weights = keep[:, b].astype(float)
        transition = moves_of(stay[:, b])
        messages = smooth_alone(classes, weights, table[:, :, b].T, transition).messages
        none = np.zeros_like(ratio[b])
        event = tangents(classes, weights, messages, transition, none, ratio[b], none[:, 0])[1]
        assert_allclose(found[:9, :, b], (ratio[b].T @ event)[:9, :11], rtol=1e-9, atol=1e-10)
