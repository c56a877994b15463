"""Sums over graphs against enumeration, the chain kernels and finite differences; errors."""

import numpy as np
import pytest
from autograd import grad, jacobian
from autograd.test_util import check_grads
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.enumerate import paths
from scipy.special import logsumexp

from acvlib.inference import chain, graph
from acvlib.inference.graph import elimination, passes


def random_graph(seed, n_sites, n_states, density, scale=1.0):
    """(edges, node, edge) with edges in either direction."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) if rng.random() < 0.5 else (b, a) for a in range(n_sites) for b in range(a)]
    edges = np.array([pair for pair in pairs if rng.random() < density], int).reshape(-1, 2)
    node, edge = (
        rng.normal(size=(n_sites, n_states)),
        rng.normal(size=(len(edges), n_states, n_states)),
    )
    return edges, scale * node, scale * edge


def features(edges, n_sites, n_states):
    """Indicators of every node state and every edge state, for each of all K^n states."""
    z, eye = paths(n_sites, n_states), np.eye(n_states)
    links = eye[z[:, edges[:, 0]]][..., :, None] * eye[z[:, edges[:, 1]]][..., None, :]
    return np.concatenate([eye[z].reshape(len(z), -1), links.reshape(len(z), -1)], axis=1)


def moments(edges, node, edge):
    """(log Z, mean, covariance) of the features, by enumeration."""
    phi = features(edges, *node.shape)
    score = phi @ np.concatenate([node.ravel(), edge.ravel()])
    log_z = logsumexp(score)
    probability = np.exp(score - log_z)
    mean = probability @ phi
    return log_z, mean, (phi - mean).T @ ((phi - mean) * probability[:, None])


def flat(parts):
    return np.concatenate([part.ravel() for part in parts])


graphs = {
    "seed": st.integers(0, 10**6),
    "n_states": st.integers(1, 3),
    "density": st.sampled_from([0.0, 0.3, 0.6, 1.0]),
}


@settings(max_examples=60)
@given(n_sites=st.integers(1, 7), scale=st.sampled_from([0.1, 1.0, 30.0]), **graphs)
def test_sums_equal_enumeration(seed, n_sites, n_states, density, scale):
    edges, node, edge = random_graph(seed, n_sites, n_states, density, scale)
    order = graph.eliminate(n_sites, edges, n_states)
    log_z, mean, _ = moments(edges, node, edge)
    posterior = graph.GraphPosterior(node, edge, order)
    assert posterior.log_partition == pytest.approx(log_z, rel=1e-12, abs=1e-11)
    assert graph.log_partition(node, edge, order) == pytest.approx(log_z, rel=1e-12, abs=1e-11)
    np.testing.assert_allclose(flat(posterior.marginals()), mean, rtol=0, atol=1e-11)
    some = np.arange(0, n_sites, 2)
    assert np.array_equal(
        graph.marginals_at(node, edge, order, some), posterior.marginals()[0][some]
    )


@settings(max_examples=25)
@given(n_sites=st.integers(1, 6), **graphs)
def test_second_derivatives_equal_enumeration(seed, n_sites, n_states, density):
    edges, node, edge = random_graph(seed, n_sites, n_states, density)
    order = graph.eliminate(n_sites, edges, n_states)
    _, _, covariance = moments(edges, node, edge)
    along = random_graph(seed + 1, n_sites, n_states, density)[1]
    along = along, np.random.default_rng(seed + 3).normal(size=edge.shape)
    moved = flat(graph.tangent(node, edge, order, *along))
    np.testing.assert_allclose(moved, flat(along) @ covariance, rtol=0, atol=1e-11)


def site_sums(seed, n_sums, node):
    """Sums over sites (D, n, K), and all their pairs."""
    sums = np.random.default_rng(seed).normal(size=(n_sums, *node.shape))
    return sums, np.argwhere(np.tri(n_sums))


@settings(max_examples=25)
@given(n_sites=st.integers(1, 6), scale=st.sampled_from([1.0, 300.0]), **graphs)
def test_moments_of_sums_equal_enumeration(seed, n_sites, n_states, density, scale):
    edges, node, edge = random_graph(seed, n_sites, n_states, density, scale)
    order = graph.eliminate(n_sites, edges, n_states)
    sums, pairs = site_sums(seed, 3, node)
    log_z, mean, covariance = moments(edges, node, edge)
    found = graph.SumMoments(node, edge, sums, pairs, order).whole
    rows = sums.reshape(3, -1)
    n = node.size
    assert found.log_partition == pytest.approx(log_z, rel=1e-12, abs=1e-11)
    np.testing.assert_allclose(found.mean, rows @ mean[:n], rtol=0, atol=1e-10)
    expected = (rows @ covariance[:n, :n] @ rows.T)[np.tri(3, dtype=bool)]
    np.testing.assert_allclose(found.covariance, expected, rtol=0, atol=1e-9)


@settings(max_examples=25)
@given(n_sites=st.integers(2, 12), scale=st.sampled_from([1.0, 300.0]), **graphs)
def test_renewed_moments_equal_new_ones(seed, n_sites, n_states, density, scale):
    """Wherever node potentials, edge potentials or sums change; one change after the other."""
    edges, node, edge = random_graph(seed, n_sites, n_states, min(density, 0.6), scale)
    order = graph.eliminate(n_sites, edges, n_states)
    sums, pairs = site_sums(seed, 2, node)
    shared = graph.SumMoments(node, edge, sums, pairs, order)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        parts = [np.array(part) for part in (node, edge, sums)]
        site = rng.integers(n_sites)
        parts[0][site] = 0.0
        parts[2][:, rng.integers(n_sites)] = 1.0
        parts[1][(edges == site).any(axis=1)] = 0.0
        ours = shared.renewed(*parts)
        anew = graph.SumMoments(*parts, pairs, order).whole
        assert ours.log_partition == pytest.approx(anew.log_partition, rel=1e-12, abs=1e-11)
        np.testing.assert_allclose(ours.mean, anew.mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(ours.covariance, anew.covariance, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_states", [2, 3])
def test_derivatives_are_right_to_second_order(n_states):
    """A primitive that unboxes its argument has a right gradient and a zero Hessian."""
    edges, node, edge = random_graph(3, 5, n_states, 0.6)
    order = graph.eliminate(5, edges, n_states)
    check_grads(lambda a, b: graph.log_partition(a, b, order), modes=["rev"], order=2)(node, edge)
    curvature = jacobian(grad(lambda a: graph.log_partition(a, edge, order)))(node)
    assert abs(curvature).max() > 0.01
    bend = jacobian(grad(lambda a: graph.log_partition(a, edge, order)))
    with pytest.raises(NotImplementedError):
        jacobian(bend)(node)


def test_gradient_by_the_rate_of_its_error():
    """Central differences: halve the step, the error falls fourfold."""
    edges, node, edge = random_graph(5, 8, 2, 0.5)
    order = graph.eliminate(8, edges, 2)
    along = np.random.default_rng(0).normal(size=node.shape)
    slope = np.sum(graph.marginals(node, edge, order)[0] * along)

    def error(step):
        ends = [graph.log_partition(node + s * step * along, edge, order) for s in (1, -1)]
        return (ends[0] - ends[1]) / (2 * step) - slope

    assert error(0.02) / error(0.01) == pytest.approx(4.0, rel=0.01)
    assert error(0.01) / error(0.005) == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize("n_states", [2, 4])
def test_agrees_with_the_chain_kernels(n_states):
    rng = np.random.default_rng(0)
    node, edge = rng.normal(size=(60, n_states)), rng.normal(size=(59, n_states, n_states))
    steps = np.stack([np.arange(59), np.arange(1, 60)], axis=1)
    order = graph.eliminate(60, steps, n_states)
    assert order.width == 1
    assert graph.log_partition(node, edge, order) == pytest.approx(
        chain.log_partition(node, edge), rel=1e-13
    )
    for ours, theirs in zip(
        graph.marginals(node, edge, order), chain.marginals(node, edge), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    d_node, d_edge = rng.normal(size=node.shape), rng.normal(size=edge.shape)
    moved = graph.tangent(node, edge, order, d_node, d_edge)
    for ours, theirs in zip(moved, chain._tangent(node, edge, d_node, d_edge), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)


def test_extreme_potentials_are_summed_in_logarithms():
    """Where products come near to underflow: the two passes agree, and each is right on its own."""
    for scale, in_products in ((10.0, True), (1000.0, False)):
        edges, node, edge = random_graph(1, 8, 2, 0.6, scale)
        order = graph.eliminate(8, edges, 2)
        log_z, mean, _ = moments(edges, node, edge)
        assert passes.collect(order, node, edge, False)[2] == in_products
        by_logs = passes.collect(order, node, edge, True)[0]
        assert by_logs == pytest.approx(log_z, rel=1e-13)
        assert graph.log_partition(node, edge, order) == pytest.approx(log_z, rel=1e-13)
        np.testing.assert_allclose(
            flat(graph.marginals(node, edge, order)), mean, rtol=0, atol=1e-11
        )


def test_samples_have_the_marginals():
    edges, node, edge = random_graph(2, 6, 3, 0.5)
    posterior = graph.GraphPosterior(node, edge, graph.eliminate(6, edges, 3))
    z = posterior.sample(np.random.default_rng(0), 40_000)
    gamma, xi = posterior.marginals()
    off = (np.eye(3)[z].mean(axis=0) - gamma) / np.sqrt(gamma * (1 - gamma) / len(z))
    a, b = edges[0]
    pairs = np.einsum("ij,ik->jk", np.eye(3)[z[:, a]], np.eye(3)[z[:, b]]) / len(z)
    off_pairs = (pairs - xi[0]) / np.sqrt(xi[0] * (1 - xi[0]) / len(z))
    assert abs(off).max() < 4.5
    assert abs(off_pairs).max() < 4.5
    again = posterior.sample(np.random.default_rng(0), 40_000)
    assert np.array_equal(z, again)


def test_min_fill_adds_nothing_to_a_graph_without_long_cycles():
    """A tree has width 1, a ring 2, an n-clique n - 1; parts and islands need no special care."""
    path = [[i, i + 1] for i in range(9)]
    assert graph.eliminate(10, path, 2).width == 1
    assert graph.eliminate(10, [*path, [9, 0]], 2).width == 2
    assert graph.eliminate(5, [[i, j] for i in range(5) for j in range(i)], 2).width == 4
    assert graph.eliminate(7, [[0, 1], [3, 4]], 2).width == 1
    assert graph.eliminate(3, [], 2).width == 0


def test_the_order_is_kept():
    edges = [[0, 1], [1, 2]]
    assert graph.eliminate(3, edges, 2) is graph.eliminate(3, np.array(edges), 2)


def test_restarts_do_not_make_it_worse():
    edges, _, _ = random_graph(0, 40, 2, 0.08)
    costs = [graph.eliminate(40, edges, 2, restarts=n).start[-1] for n in (1, 5, 40)]
    assert costs[0] >= costs[1] >= costs[2]


def test_a_graph_too_wide_says_width_memory_and_remedy():
    edges = [[i, j] for i in range(30) for j in range(i)]
    with pytest.raises(
        graph.TooWide, match=r"width 29.*2\^29 entries, 56 GiB.*limit of 2 GiB.*Merge sites"
    ):
        graph.eliminate(30, edges, 2)
    with pytest.raises(elimination.TooWide):
        graph.eliminate(8, edges[:28], 2, memory=1000)


def test_potentials_must_be_finite():
    order = graph.eliminate(2, [[0, 1]], 2)
    with pytest.raises(ValueError, match="finite"):
        graph.log_partition(np.array([[0.0, np.nan], [0.0, 0.0]]), np.zeros((1, 2, 2)), order)


@pytest.mark.parametrize("bad", ["node", "edge", "states", "site", "float", "sums", "pairs"])
def test_nothing_unchecked_reaches_a_kernel(bad):
    """A wrong shape would read past an array, and a site too many end in a segmentation fault."""
    order = graph.eliminate(3, [[0, 1], [1, 2]], 2)
    node = np.zeros({"node": (4, 2), "states": (3, 3)}.get(bad, (3, 2)))
    edge = np.zeros((1 if bad == "edge" else 2, 2, 2))
    sums = np.zeros((1, 2 if bad == "sums" else 3, 2))
    sites = {"site": [3], "float": [0.5]}.get(bad, [0])
    pairs = [(0, 1)] if bad == "pairs" else [(0, 0)]
    calls = [
        lambda: graph.marginals_at(node, edge, order, sites),
        lambda: graph.SumMoments(node, edge, sums, pairs, order),
    ]
    if bad in ("node", "edge", "states"):
        calls += [
            lambda: graph.log_partition(node, edge, order),
            lambda: graph.marginals(node, edge, order),
            lambda: graph.GraphPosterior(node, edge, order),
            lambda: graph.tangent(np.zeros((3, 2)), np.zeros((2, 2, 2)), order, node, edge),
        ]
    elif bad in ("site", "float"):
        calls = calls[:1]
    else:
        calls = calls[1:]
    for call in calls:
        with pytest.raises(ValueError, match="shape|site|sums"):
            call()


@pytest.mark.parametrize("sites", [[True, False, True], 3, [-1], [3], [0.5], [2**40], [[0, 1]]])
def test_sites_that_are_none_are_refused(sites):
    """Flags would be read as the sites 0 and 1."""
    order = graph.eliminate(3, [[0, 1], [1, 2]], 2)
    with pytest.raises(ValueError, match=r"sites must be numbers among 0 ... 2"):
        graph.marginals_at(np.zeros((3, 2)), np.zeros((2, 2, 2)), order, sites)


@pytest.mark.parametrize("node", [np.full((3, 2), 1j), np.array([[1e308, -1e308]] * 3)])
def test_potentials_that_no_kernel_can_add_are_refused(node):
    order = graph.eliminate(3, [[0, 1], [1, 2]], 2)
    with pytest.raises(ValueError, match="node must be (real numbers; got complex|finite, up to)"):
        graph.log_partition(node, np.zeros((2, 2, 2)), order)


@pytest.mark.parametrize("change", [{"n_states": 2.5}, {"n_states": 0}, {"restarts": 0}])
def test_numbers_of_states_and_restarts_are_whole(change):
    with pytest.raises(ValueError, match="must be a whole number from 1"):
        graph.eliminate(**({"n_sites": 3, "edges": [[0, 1]], "n_states": 2} | change))


def test_an_order_that_is_kept_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        graph.eliminate(3, [[0, 1]], 2).site[0] = 1


def test_one_site_alone_and_one_state():
    alone = graph.eliminate(1, [], 3)
    node = np.array([[0.5, -1.0, 2.0]])
    posterior = graph.GraphPosterior(node, np.zeros((0, 3, 3)), alone)
    assert posterior.log_partition == pytest.approx(logsumexp(node))
    np.testing.assert_allclose(posterior.marginals()[0], np.exp(node - logsumexp(node)))
    ring = graph.eliminate(4, [[0, 1], [1, 2], [2, 3], [3, 0]], 1)
    assert graph.log_partition(np.full((4, 1), 0.5), np.full((4, 1, 1), 2.0), ring) == 10.0


def test_a_graph_needs_sites_and_states_and_edges_among_them():
    with pytest.raises(ValueError, match="n_sites = 0"):
        graph.eliminate(0, [], 2)
    with pytest.raises(ValueError, match="leaves the sites 0 ... 2"):
        graph.eliminate(3, [[0, 3]], 2)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 0]], r"edge \(0, 0\) joins a site to itself"),
        ([[0, 1], [1, 2], [1, 0]], r"edge \(1, 0\) is listed more than once"),
        ([[0, 1], [2, 3]], r"edge \(2, 3\) leaves the sites 0 ... 2"),
        ([[-1, 1]], r"edge \(-1, 1\) leaves the sites"),
        ([[0.0, 1.0]], "integers"),
        ([[0, 1, 2]], r"shape \(1, 3\)"),
    ],
)
def test_bad_edges_are_named(edges, message):
    with pytest.raises(ValueError, match=message):
        graph.check_edges(edges, 3)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1], [0, 0]], r"not symmetric: \[0, 1\] = 1 and \[1, 0\] = 0"),
        ([[0, 1], [1, 1]], "site 1 is its own neighbour"),
        ([[0, 2], [2, 0]], "0 or 1; found 2"),
        ([[0, np.nan], [np.nan, 0]], "found nan"),
        ([[0, 1, 0], [1, 0, 1]], "square"),
    ],
)
def test_bad_adjacency_matrices_are_named(matrix, message):
    with pytest.raises(ValueError, match=message):
        graph.edges_of(np.array(matrix))


def test_edges_of_an_adjacency_matrix():
    from scipy.sparse import csr_matrix

    matrix = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    assert graph.edges_of(matrix).tolist() == [[0, 1], [0, 2]]
    assert graph.edges_of(csr_matrix(matrix)).tolist() == [[0, 1], [0, 2]]


@pytest.mark.parametrize("size", [1e-200, 1e25, 1e120])
def test_a_tangent_is_linear_in_a_direction_of_any_size(size):
    """A complex step of that size would lose all digits."""
    order = graph.eliminate(3, [[0, 1], [1, 2]], 2)
    rng = np.random.default_rng(0)
    node, edge, d_node, d_edge = (rng.normal(size=(n, *[2] * k)) for n, k in [(3, 1), (2, 2)] * 2)
    expected = graph.tangent(node, edge, order, d_node, d_edge)
    found = graph.tangent(node, edge, order, size * d_node, size * d_edge)
    for part, known in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, size * known, rtol=1e-12)


def test_a_tangent_at_large_potentials_is_0():
    order = graph.eliminate(3, [[0, 1], [1, 2]], 2)
    node = np.arange(6.0).reshape(3, 2)
    edge = 1e9 * np.arange(8.0).reshape(2, 2, 2)
    for part in graph.tangent(node, edge, order, node, edge / 1e9):
        np.testing.assert_allclose(part, 0.0, atol=1e-12)
