"""The two-state kernels, one chain and many lanes, against the general chain and against enumeration."""

import numpy as np
import pytest
from autograd import grad
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles.enumerate import log_partition_and_moments
from oracles.refit import central_difference
from scipy.special import expit

from acvlib.inference import chain, hidden_chain, lanes, two_state
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


def by_chain(classes, weights, table, stay):
    """(log Z, P(z_t = 1) (T,), moves 0 -> 1 after the first site) by the general kernels."""
    node, edge = hidden_chain.potentials(keep_latents, weights, table[classes], *log_chain(stay))
    gamma, xi = chain.marginals(node, edge)
    return chain.log_partition(node, edge), gamma[:, 1], xi[:, 0, 1].sum()


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
    log_z, gamma, moves = two_state.smooth(classes, weights, table, moves_of(stay))
    expected, marginal, later_moves = by_chain(classes, weights, table, stay)
    assert_allclose(log_z, expected, rtol=1e-11, atol=1e-11)
    assert_allclose(gamma[1:], marginal, rtol=0, atol=1e-10)
    assert -1e-9 <= moves - later_moves <= 1.0 + 1e-9  # the one more from site 0 to the first


@pytest.mark.parametrize(
    "weights", [np.ones(7), np.zeros(7), np.linspace(0, 1, 7)], ids=["1", "0", "between"]
)
def test_smoothing_equals_enumeration_with_the_unobserved_first_site(weights):
    classes, _, table = series(1, 7)
    initial, transition = log_chain(STAY)
    weights = np.concatenate([[0.0], weights])
    density = np.concatenate([np.zeros((1, 2)), table[classes]])
    node, edge = hidden_chain.potentials(keep_latents, weights, density, initial, transition)
    expected, mean, _ = log_partition_and_moments(node, edge)
    log_z, gamma, moves = two_state.smooth(classes, weights[1:], table, TRANSITION)
    assert_allclose(log_z, expected, rtol=0, atol=1e-10)
    assert_allclose(gamma, mean[: node.size].reshape(8, 2)[:, 1], rtol=0, atol=1e-10)
    assert_allclose(moves, mean[node.size :].reshape(7, 2, 2)[:, 0, 1].sum(), rtol=0, atol=1e-10)


def test_filter_returns_filtered_probabilities_and_not_smoothed_ones():
    classes, weights, table = series(2, 6)
    filtered, inverse_norm = np.empty(7), np.empty(6)
    two_state.filter_forward(classes, weights, table, TRANSITION, filtered, inverse_norm)
    past = [by_chain(classes[:t], weights[:t], table, STAY)[1][-1] for t in range(1, 7)]
    assert_allclose(filtered[1:], past, rtol=0, atol=1e-12)
    assert_allclose(filtered[0], 0.1 / (0.1 + 0.25), rtol=1e-14)


def tangent_problem(seed=3, n_sites=40, n_classes=6, n_params=5):
    """Random classes whose log-odds move with two of three parameters each; the last two are stay logits."""
    rng = np.random.default_rng(seed)
    classes, weights, table = series(seed, n_sites, n_classes)
    score_at = np.array([[c % 2, 2] for c in range(n_classes)])
    ratio_score = rng.standard_normal((n_classes, 2))
    return classes, weights, table, ratio_score, score_at


def moved(params, classes, weights, table, ratio_score, score_at):
    """Smoothing at parameters moved by `params` (5,) from the table and from STAY: gamma and moves, flat."""
    logits = np.log(STAY / (1 - STAY)) + params[3:]
    shifted = table + np.stack(
        [np.zeros(len(table)), (ratio_score * params[score_at]).sum(axis=1)], axis=1
    )
    _, gamma, moves = two_state.smooth(
        classes, weights, shifted - shifted.max(axis=1, keepdims=True), moves_of(expit(logits))
    )
    return np.append(gamma, moves)


def test_tangent_is_the_derivative_of_smoothing():
    problem = tangent_problem()
    classes, weights, table, ratio_score, score_at = problem
    log_z, gamma, moves, d_gamma, d_moves = two_state.smooth_tangent(
        classes, weights, table, TRANSITION, ratio_score, score_at
    )
    same_log_z, *same = two_state.smooth(classes, weights, table, TRANSITION)
    assert_allclose(log_z, same_log_z, rtol=1e-13)
    assert_allclose(np.append(gamma, moves), np.append(*same), rtol=1e-12)
    expected = central_difference(lambda p: moved(p, *problem), np.zeros(5))
    assert_allclose(np.vstack([d_gamma, d_moves])[:, :5], expected, rtol=0, atol=1e-8)


def test_class_sums_count_weights_and_weighted_events():
    classes, weights, table = series(4, 30)
    _, gamma, _ = two_state.smooth(classes, weights, table, TRANSITION)
    total, event = two_state.class_sums(classes, weights, gamma, 5)
    assert_allclose(total, np.bincount(classes, weights, 5), rtol=1e-14)
    assert_allclose(event, np.bincount(classes, weights * gamma[1:], 5), rtol=1e-13)


def test_log_z_gradient_in_the_weights_is_the_expected_log_emission():
    classes, weights, table = series(5, 25)

    def log_z(w):
        return chain.log_partition(
            *hidden_chain.potentials(keep_latents, w, table[classes], *log_chain(STAY)),
        )

    _, gamma, _ = two_state.smooth(classes, weights, table, TRANSITION)
    expected = (1 - gamma[1:]) * table[classes, 0] + gamma[1:] * table[classes, 1]
    assert_allclose(grad(log_z)(weights), expected, rtol=0, atol=1e-12)


def test_rare_moves_that_the_data_force_at_every_step_stay_finite():
    """Sixteen normalisers are multiplied between logarithms: here each one is about 1e-25."""
    stay, table = np.array([0.5, 1e-25]), np.array([[-200.0, 0.0]])
    classes, weights = np.zeros(64, np.int32), np.ones(64)
    log_z, gamma, _ = two_state.smooth(classes, weights, table, moves_of(stay))
    expected, marginal, _ = by_chain(classes, weights, table, stay)
    assert_allclose(log_z, expected, rtol=1e-12)
    assert_allclose(gamma[1:], marginal, atol=1e-10)


# lanes


def lane_problem(n_sites=700, seed=6):
    """One row of (classes, keep, emission, stay) for the lanes: its own table, stay and kept sites in each."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 4, n_sites).astype(np.int32)
    table = rng.standard_normal((2, 4, lanes.N_LANES))
    table -= table.max(axis=0)
    stay = rng.uniform(0.5, 0.98, (2, lanes.N_LANES))
    return classes, rng.random((n_sites, lanes.N_LANES)) < 0.8, table, stay


def by_one(classes, keep, table, stay, b):
    return two_state.smooth(
        classes, keep[:, b].astype(float), table[:, :, b].T.copy(), moves_of(stay[:, b])
    )


@pytest.mark.parametrize("n_sites", [1, 15, 16, 17, lanes.MAX_BLOCK, lanes.MAX_BLOCK + 1, 700])
def test_every_lane_equals_its_own_chain(n_sites):
    classes, keep, table, stay = lane_problem(n_sites)
    starts = lanes.block_starts(np.zeros(n_sites))
    log_z, sums, statistics = lanes.smooth_lanes(
        classes, keep, np.exp(table), moves_of(stay), starts
    )
    left_out = [np.flatnonzero(~keep[:, b]) for b in range(lanes.N_LANES)]
    ends = np.cumsum([0, *map(len, left_out)])
    heldout = lanes.heldout_lanes(
        classes, keep, np.exp(table), moves_of(stay), starts, np.concatenate(left_out), ends
    )
    for b in (0, 1, 17, lanes.N_LANES - 1):
        expected, gamma, moves = by_one(classes, keep, table, stay, b)
        _, event = two_state.class_sums(classes, keep[:, b].astype(float), gamma, 4)
        assert_allclose(log_z[b], expected, rtol=1e-12)
        assert_allclose(sums[:, b], event, rtol=1e-10, atol=1e-12)
        assert_allclose(
            statistics[:, b], [gamma[0], gamma[-1], moves, gamma[:-1].sum()], rtol=1e-10, atol=1e-12
        )
        at, c = gamma[1:][left_out[b]], classes[left_out[b]]
        density = np.exp(table[:, c, b])
        assert_allclose(
            heldout[ends[b] : ends[b + 1]], (1 - at) * density[0] + at * density[1], rtol=1e-10
        )


def test_blocks_are_constant_in_their_group_and_never_too_long():
    groups = np.repeat([3, 1, 3, 0], [lanes.MAX_BLOCK, 1, 2 * lanes.MAX_BLOCK + 5, 10])
    starts = lanes.block_starts(groups)
    lengths = np.diff(starts)
    assert starts[0] == 0
    assert starts[-1] == len(groups)
    assert lengths.min() >= 1
    assert lengths.max() == lanes.MAX_BLOCK
    assert all(
        len(np.unique(groups[a:b])) == 1 for a, b in zip(starts[:-1], starts[1:], strict=True)
    )


@settings(max_examples=20)
@given(st.lists(st.integers(1, 3 * lanes.MAX_BLOCK), min_size=1, max_size=6))
def test_blocks_follow_every_change_of_group(lengths):
    starts = lanes.block_starts(np.repeat(np.arange(len(lengths)), lengths))
    assert set(np.cumsum([0, *lengths])) <= set(starts)
    assert (np.diff(starts) > 0).all()
    assert np.diff(starts).max() <= lanes.MAX_BLOCK


def test_results_do_not_depend_on_where_blocks_end():
    classes, keep, table, stay = lane_problem(300)
    cuts = [
        np.array(c) for c in ([0, 100, 300 - 288 + 100, 300], [0, 1, 2, 289, 300], list(range(301)))
    ]
    results = [
        lanes.smooth_lanes(classes, keep, np.exp(table), moves_of(stay), starts) for starts in cuts
    ]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_allclose(a, b, rtol=1e-12)


def curvature_inputs(n_sites):
    classes, keep, table, stay = lane_problem(n_sites)
    group = np.arange(n_sites) // 37 % 2
    classes = (classes % 2 + 2 * group).astype(np.int32)
    score_at = np.array([[c // 2, 2, 3] for c in range(4)])
    ratio_score = np.random.default_rng(7).standard_normal((3, 4, lanes.N_LANES))
    return (
        (classes, keep, np.exp(table), moves_of(stay), ratio_score, score_at),
        lanes.block_starts(group),
        table,
    )


@pytest.mark.parametrize("n_sites", [5, 120])
def test_curvature_lanes_give_the_variance_of_the_score(n_sites):
    """The start's variance and the steps' sum to Var(score), which one chain's tangent gives as d E[score]."""
    inputs, starts, table = curvature_inputs(n_sites)
    classes, keep, _, transition, ratio_score, score_at = inputs
    outer, linear, tangent = lanes.curvature_lanes(*inputs, starts)
    for b in (0, 5, lanes.N_LANES - 1):
        weights, ratio = keep[:, b].astype(float), ratio_score[:, :, b].T.copy()
        _, gamma, _, d_gamma, _ = two_state.smooth_tangent(
            classes, weights, table[:, :, b].T.copy(), transition[:, :, b].copy(), ratio, score_at
        )
        emissions = np.zeros((4, 6))
        for t, c in enumerate(classes):
            emissions[score_at[c]] += weights[t] * ratio[c][:, None] * d_gamma[t + 1, :6]
        variance = outer[:4, :4, b] + np.tril(outer[:4, :4, b], -1).T
        variance += gamma[0] * (1 - gamma[0]) * np.outer(tangent[:4, b], tangent[:4, b])
        assert_allclose(variance, emissions[:, :4], rtol=1e-9, atol=1e-11)
        assert_array_equal(np.triu(outer[:, :, b], 1), 0.0)


def test_the_oracle_tells_a_wrong_derivative():
    """Negative control: a tangent without its backward half is caught by the tolerance in use."""
    problem = tangent_problem()
    _, gamma, _, d_gamma, _ = two_state.smooth_tangent(
        problem[0], problem[1], problem[2], TRANSITION, *problem[3:]
    )
    filtered, inverse_norm = np.empty(41), np.empty(40)

    def forward_only(p):
        shifted = problem[2] + np.stack(
            [np.zeros(6), (problem[3] * p[problem[4]]).sum(axis=1)], axis=1
        )
        table = shifted - shifted.max(axis=1, keepdims=True)
        two_state.filter_forward(problem[0], problem[1], table, TRANSITION, filtered, inverse_norm)
        return filtered.copy()

    wrong = central_difference(forward_only, np.zeros(5))[:, :3]
    assert np.abs(d_gamma[:, :3] - wrong).max() > 1e-3
