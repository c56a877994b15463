"""Sums over graphs against enumeration, the chain kernels and finite differences; errors."""

import numpy as np
import pytest
from autograd import grad, hessian
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles.enumerate import log_partition_and_moments, scored_paths
from oracles.wrappers import raises

from acvlib.inference import chain, graph, smoothing


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


@pytest.mark.parametrize("part", ["chain's node", "chain's edge", "graph's node"])
def test_a_third_derivative_raises_and_is_not_zero(part):
    edges, node, edge = random_graph(3, 5, 2, 0.6)
    order = graph.eliminate(5, edges, 2)
    links = np.ones((4, 2, 2))
    functions = {
        "chain's node": lambda x: chain.log_partition(x * node, links),
        "chain's edge": lambda x: chain.log_partition(node, x * links),
        "graph's node": lambda x: graph.log_partition(x * node, edge, order),
    }
    with pytest.raises(NotImplementedError, match="flat_tangent" if "chain" in part else None):
        grad(grad(grad(functions[part])))(1.0)


def test_the_order_adds_nothing_to_a_graph_without_long_cycles_is_kept_and_cannot_be_changed():
    path = [[i, i + 1] for i in range(9)]
    assert graph.eliminate(10, path, 2).width == 1
    assert graph.eliminate(10, [*path, [9, 0]], 2).width == 2
    assert graph.eliminate(5, [[i, j] for i in range(5) for j in range(i)], 2).width == 4
    assert graph.eliminate(7, [[0, 1], [3, 4]], 2).width == 1
    assert graph.eliminate(3, [], 2).width == 0
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
def test_a_tangent_is_linear_in_a_direction_of_any_size(size, rng):
    """A complex step of that size would lose all digits."""
    order = graph.eliminate(3, [[0, 1], [1, 2]], 2)
    node, edge, d_node, d_edge = (rng.normal(size=(n, *[2] * k)) for n, k in [(3, 1), (2, 2)] * 2)
    expected = tangent(node, edge, order, d_node, d_edge)
    found = tangent(node, edge, order, size * d_node, size * d_edge)
    np.testing.assert_allclose(found, size * expected, rtol=1e-12)


def potentials(seed, n_sites, n_states, scale=2.0):
    rng = np.random.default_rng(seed)
    edge = scale * rng.standard_normal((n_sites - 1, n_states, n_states))
    return scale * rng.standard_normal((n_sites, n_states)), edge


@settings(max_examples=25)
@given(
    st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 3), st.sampled_from([0.1, 3.0, 30.0])
)
def test_any_small_chain_equals_enumeration(seed, n_sites, n_states, scale):
    node, edge = potentials(seed, n_sites, n_states, scale)
    log_z, mean, _ = log_partition_and_moments(node, edge)
    assert_allclose(chain.log_partition(node, edge), log_z, rtol=1e-12, atol=1e-10)
    assert_allclose(flat(chain.marginals(node, edge)), mean, rtol=0, atol=1e-10)


def test_a_long_chain_keeps_float64_accuracy():
    """50,000 equal links: log Z from the eigenvalues, to rounding; float32 is off by nats."""
    n_sites, link = 50_000, np.array([[0.3, -1.0], [0.2, 0.8]])
    edge = np.broadcast_to(link, (n_sites - 1, 2, 2)).copy()
    values, vectors = np.linalg.eig(np.exp(link))
    top = np.argmax(values)
    ends = vectors[:, top].sum() * np.linalg.inv(vectors)[top].sum()
    expected = (n_sites - 1) * np.log(values[top]) + np.log(ends)
    found = chain.log_partition(np.zeros((n_sites, 2)), edge)
    assert_allclose(found, expected, rtol=n_sites * np.finfo(float).eps)


@pytest.mark.parametrize(("node_scale", "edge_scale"), [(1e5, 1.0), (1e2, 1e2), (1e3, 1e3)])
def test_extreme_potentials_equal_enumeration(node_scale, edge_scale):
    node, edge = potentials(9, 6, 3)
    node, edge = node_scale * node, edge_scale * edge
    log_z, mean, covariance = log_partition_and_moments(node, edge)
    assert_allclose(chain.log_partition(node, edge), log_z, rtol=1e-12)
    assert_allclose(flat(chain.marginals(node, edge)), mean, atol=1e-10)
    node_hessian = hessian(lambda u: chain.log_partition(u, edge))(node).reshape(node.size, -1)
    assert_allclose(node_hessian, covariance[: node.size, : node.size], atol=1e-10)


SHAPES = [((5, 2), (3, 2, 2)), ((5, 2), (4, 3, 3)), ((5, 2), (4, 2)), ((5,), (4, 1, 1))]
SHAPES += [((0, 2), (0, 2, 2)), ((3, 0), (2, 0, 0)), ((1, 2), (1, 2, 2))]


@pytest.mark.parametrize(("node", "edge"), SHAPES)
def test_shapes_that_do_not_belong_together_are_refused(node, edge):
    """A kernel would read past the arrays, and return a number."""
    for function in (chain.log_partition, chain.marginals):
        raises(r"\(T, K\)", function, np.zeros(node), np.zeros(edge))


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
def test_potentials_of_any_scale_an_end_and_forbidden_states(far, rng):
    """As a CRF has them; `far` sends the chain to the sum in logarithms."""
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
        path, log_p = scored_paths(node, start, transition)
        assert np.array_equal(best[a:b], path[np.argmax(log_p)])


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
