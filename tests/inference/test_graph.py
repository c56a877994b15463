"""Sums over graphs against enumeration, the chain kernels and finite differences; errors."""

import numpy as np
import pytest
from autograd import grad, jacobian
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.enumerate import log_partition_and_moments

from acvlib.inference import graph


def random_graph(seed, n_sites, n_states, density, scale=1.0):
    """(edges, node, edge) with edges in either direction."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) if rng.random() < 0.5 else (b, a) for a in range(n_sites) for b in range(a)]
    edges = np.array([pair for pair in pairs if rng.random() < density], int).reshape(-1, 2)
    node = rng.normal(size=(n_sites, n_states))
    return edges, scale * node, scale * rng.normal(size=(len(edges), n_states, n_states))


def flat(parts):
    return np.concatenate([part.ravel() for part in parts])


def tangent(node, edge, order, d_node, d_edge):
    """The derivative of the marginals along a direction, flat: their Jacobian is symmetric."""

    def along(node, edge):
        gamma, xi = grad(graph.log_partition, argnum=(0, 1))(node, edge, order)
        return (gamma * d_node).sum() + (xi * d_edge).sum()

    return flat(grad(along, argnum=(0, 1))(node, edge))


graphs = {
    "seed": st.integers(0, 10**6),
    "n_states": st.integers(1, 3),
    "density": st.sampled_from([0.0, 0.3, 0.6, 1.0]),
}


@settings(max_examples=60)
@given(n_sites=st.integers(1, 7), scale=st.sampled_from([0.1, 1.0, 5.0]), **graphs)
def test_sums_equal_enumeration(seed, n_sites, n_states, density, scale):
    edges, node, edge = random_graph(seed, n_sites, n_states, density, scale)
    order = graph.eliminate(n_sites, edges, n_states)
    log_z, mean, _ = log_partition_and_moments(node, edge, edges)
    posterior = graph.GraphPosterior(node, edge, order)
    assert posterior.log_partition == pytest.approx(log_z, rel=1e-12, abs=1e-11)
    assert graph.log_partition(node, edge, order) == pytest.approx(log_z, rel=1e-12, abs=1e-11)
    np.testing.assert_allclose(flat(posterior.marginals()), mean, rtol=0, atol=1e-11)
    some = np.arange(0, n_sites, 2)
    assert np.array_equal(posterior.marginals_at(some), posterior.marginals()[0][some])


@settings(max_examples=25)
@given(n_sites=st.integers(1, 6), **graphs)
def test_second_derivatives_equal_enumeration(seed, n_sites, n_states, density):
    edges, node, edge = random_graph(seed, n_sites, n_states, density)
    order = graph.eliminate(n_sites, edges, n_states)
    _, _, covariance = log_partition_and_moments(node, edge, edges)
    along = random_graph(seed + 1, n_sites, n_states, density)[1]
    along = along, np.random.default_rng(seed + 3).normal(size=edge.shape)
    moved = tangent(node, edge, order, *along)
    np.testing.assert_allclose(moved, flat(along) @ covariance, rtol=0, atol=1e-11)


def test_a_third_derivative_raises_and_is_not_zero():
    edges, node, edge = random_graph(3, 5, 2, 0.6)
    order = graph.eliminate(5, edges, 2)
    bend = jacobian(grad(lambda a: graph.log_partition(a, edge, order)))
    with pytest.raises(NotImplementedError):
        jacobian(bend)(node)


def test_min_fill_adds_nothing_to_a_graph_without_long_cycles():
    """A tree has width 1, a ring 2, an n-clique n - 1; parts and islands need no special care."""
    path = [[i, i + 1] for i in range(9)]
    assert graph.eliminate(10, path, 2).width == 1
    assert graph.eliminate(10, [*path, [9, 0]], 2).width == 2
    assert graph.eliminate(5, [[i, j] for i in range(5) for j in range(i)], 2).width == 4
    assert graph.eliminate(7, [[0, 1], [3, 4]], 2).width == 1
    assert graph.eliminate(3, [], 2).width == 0


def test_the_order_is_kept_and_cannot_be_changed():
    order = graph.eliminate(3, [[0, 1], [1, 2]], 2)
    assert graph.eliminate(3, np.array([[0, 1], [1, 2]]), 2) is order
    with pytest.raises(ValueError, match="read-only"):
        order.site[0] = 1


def test_potentials_of_nodes_may_be_far_apart_and_those_of_edges_not_so_far():
    edges, node, edge = random_graph(1, 8, 2, 0.6)
    order = graph.eliminate(8, edges, 2)
    log_z, mean, _ = log_partition_and_moments(1e4 * node, edge, edges)
    posterior = graph.GraphPosterior(1e4 * node, edge, order)
    assert posterior.log_partition == pytest.approx(log_z, rel=1e-13)
    np.testing.assert_allclose(flat(posterior.marginals()), mean, rtol=0, atol=1e-11)
    with pytest.raises(ValueError, match="so far apart that their products underflow"):
        graph.log_partition(node, 1e3 * edge, order)


@pytest.mark.parametrize("size", [1e-200, 1e25, 1e120])
def test_a_tangent_is_linear_in_a_direction_of_any_size(size):
    """A complex step of that size would lose all digits."""
    order = graph.eliminate(3, [[0, 1], [1, 2]], 2)
    rng = np.random.default_rng(0)
    node, edge, d_node, d_edge = (rng.normal(size=(n, *[2] * k)) for n, k in [(3, 1), (2, 2)] * 2)
    expected = tangent(node, edge, order, d_node, d_edge)
    found = tangent(node, edge, order, size * d_node, size * d_edge)
    np.testing.assert_allclose(found, size * expected, rtol=1e-12)
