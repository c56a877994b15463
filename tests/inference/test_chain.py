"""The chain's log-partition, marginals and their derivatives against sums over all paths."""

import numpy as np
import pytest
from autograd import grad, hessian
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles.enumerate import log_partition_and_moments

from acvlib.inference import chain


def potentials(seed, n_sites, n_states, scale=2.0):
    rng = np.random.default_rng(seed)
    edge = scale * rng.standard_normal((n_sites - 1, n_states, n_states))
    return scale * rng.standard_normal((n_sites, n_states)), edge


def flat(node, edge):
    return np.concatenate([np.ravel(node), np.ravel(edge)])


@settings(max_examples=25)
@given(
    st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 3), st.sampled_from([0.1, 3.0, 30.0])
)
def test_any_small_chain_equals_enumeration(seed, n_sites, n_states, scale):
    node, edge = potentials(seed, n_sites, n_states, scale)
    log_z, mean, _ = log_partition_and_moments(node, edge)
    assert_allclose(chain.log_partition(node, edge), log_z, rtol=1e-12, atol=1e-10)
    assert_allclose(flat(*chain.marginals(node, edge)), mean, rtol=0, atol=1e-10)


@pytest.mark.parametrize("part", ["node", "edge"])
def test_a_third_derivative_raises_and_is_not_zero(part):
    node, edge = potentials(4, 3, 2)
    functions = {
        "node": lambda x: chain.log_partition(x * node, edge),
        "edge": lambda x: chain.log_partition(node, x * edge),
    }
    third = grad(grad(grad(functions[part])))
    with pytest.raises(NotImplementedError, match="flat_tangent"):
        third(1.0)


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
    assert_allclose(flat(*chain.marginals(node, edge)), mean, atol=1e-10)
    node_hessian = hessian(lambda u: chain.log_partition(u, edge))(node).reshape(node.size, -1)
    assert_allclose(node_hessian, covariance[: node.size, : node.size], atol=1e-10)


@pytest.mark.parametrize(
    ("node", "edge"),
    [
        ((5, 2), (3, 2, 2)),
        ((5, 2), (4, 3, 3)),
        ((5, 2), (4, 2)),
        ((5,), (4, 1, 1)),
        ((0, 2), (0, 2, 2)),
        ((3, 0), (2, 0, 0)),
        ((1, 2), (1, 2, 2)),
    ],
)
def test_shapes_that_do_not_belong_together_are_refused(node, edge):
    """A kernel would read past the arrays, and return a number."""
    for function in (chain.log_partition, chain.marginals):
        with pytest.raises(ValueError, match=r"\(T, K\)"):
            function(np.zeros(node), np.zeros(edge))
