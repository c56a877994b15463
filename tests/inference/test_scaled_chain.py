"""The scaled kernels against sums over all paths, and their tangent by its rate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles.enumerate import log_partition_and_moments

from acvlib.inference import active_pairs, smoothing

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
    pairs = (
        mean[n:].reshape(edge.shape).sum(axis=0) if len(node) > 1 else np.zeros_like(log_transition)
    )
    return log_z, mean[:n].reshape(node.shape), pairs


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), spread=st.sampled_from([0.1, 3.0, 300.0]))
def test_smoothing_and_counts_equal_enumeration(seed, k, spread):
    density, initial, transition = random_chain(np.random.default_rng(seed), k, spread)
    smoothed = smoothing.smooth(smoothing.factors(density), STARTS, initial, transition)
    weights = np.array([0.5, 2.0, 1.0])
    counts = smoothing.transition_counts(smoothed, STARTS, weights)
    each = [
        enumerated(density[a:b], initial, transition)
        for a, b in zip(STARTS[:-1], STARTS[1:], strict=True)
    ]
    assert_allclose(smoothed.log_z, [z for z, _, _ in each], rtol=1e-12)
    assert_allclose(smoothed.gamma, np.concatenate([gamma for _, gamma, _ in each]), atol=1e-11)
    assert_allclose(
        counts, sum(w * pairs for w, (_, _, pairs) in zip(weights, each, strict=True)), atol=1e-10
    )


def test_a_nearly_impossible_transition_is_summed_in_logarithms():
    """State 1 explains the last frame alone, by e^800,
    and is reached by a jump of e^-500 or held since the start.
    """
    initial, transition = np.log([0.5, 0.5]), np.array([[0.0, -500.0], [-500.0, 0.0]])
    density = np.array([[0.0, 0.0], [0.0, -790.0], [0.0, 800.0]])
    assert np.ptp(transition) > smoothing.UNLIKELY
    smoothed = smoothing.smooth(smoothing.factors(density), np.array([0, 3]), initial, transition)
    log_z, gamma, _ = enumerated(density, initial, transition)
    assert_allclose(smoothed.log_z, [log_z], rtol=1e-13)
    assert_allclose(smoothed.gamma, gamma, atol=1e-12)


def test_outliers_do_not_overflow():
    density, initial, transition = random_chain(np.random.default_rng(0), 3, 1e5)
    smoothed = smoothing.smooth(smoothing.factors(density), STARTS, initial, transition)
    assert np.isfinite(smoothed.log_z).all()
    assert_allclose(smoothed.gamma.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("threshold", [0.0, 1e-9])
def test_covariances_are_the_derivative_of_posteriors_by_rate(threshold):
    rng = np.random.default_rng(3)
    density, initial, transition = random_chain(rng, 3)
    d_density, d_transition = rng.normal(size=density.shape), rng.normal(size=transition.shape)
    weights = np.array([1.0, 3.0, 0.5])

    def at(step):
        """Posteriors and counts; the transitions need not sum to one, as in the tangent."""
        moved = transition + step * d_transition
        smoothed = smoothing.smooth(
            smoothing.factors(density + step * d_density), STARTS, initial, moved
        )
        counts = smoothing.transition_counts(smoothed, STARTS, weights)
        return smoothed, counts

    smoothed, counts = at(0.0)
    pairs = active_pairs.active_pairs(smoothed, STARTS, np.exp(transition), threshold)
    s = d_density[pairs.frame, pairs.state][:, None]
    c, moves = active_pairs.covariances(pairs, s, d_transition[:, :, None], weights[:, None])
    of_frame = np.repeat(weights, LENGTHS)[pairs.frame]

    def errors(step):
        there, more = at(step)
        gap = of_frame * (there.gamma - smoothed.gamma)[pairs.frame, pairs.state] / step - c[:, 0]
        return np.abs(gap).max(), np.abs((more - counts) / step - moves[:, :, 0]).max()

    for coarse, fine in zip(errors(1e-3), errors(5e-4), strict=True):
        assert 1.8 < coarse / fine < 2.2  # a one-sided difference errs by its step


def test_one_sequence_is_its_part_of_all():
    rng = np.random.default_rng(4)
    density, initial, transition = random_chain(rng, 3)
    smoothed = smoothing.smooth(smoothing.factors(density), STARTS, initial, transition)
    pairs = active_pairs.active_pairs(smoothed, STARTS, np.exp(transition), 1e-9)
    s = rng.normal(size=(len(pairs.gamma), 2))
    weights = np.array(
        [[1.0, 1.0], [1.0, 0.0], [0.5, 2.0]]
    )  # of a sequence, direction by direction
    whole, _ = active_pairs.covariances(pairs, s, None, weights)
    for n in range(3):
        rows, own = pairs.of_sequence(n)
        alone, _ = active_pairs.covariances(own, s[rows].copy(), None, np.ones((1, 2)))
        assert_allclose(weights[n] * alone, whole[rows], atol=1e-14)
