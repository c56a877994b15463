"""Exact sums over the hidden states of a chain, differentiable twice by autograd.

    log Z = log sum_z exp( sum_t node[t, z_t] + sum_t edge[t, z_t, z_t+1] )

Two primitives suffice for second derivatives: the gradient of log Z is the marginals, and the
Hessian of log Z is symmetric, so the reverse-mode product of the marginals is their directional
derivative. Potentials must be finite: a weight of 0 times -inf is nan. Reverse mode only. It is the
reference that the kernels of `smoothing` and `two_state` are tested against.

Shapes: node (T, K), edge (T - 1, K, K); marginals likewise. Cost O(T K^2) for each function. What
runs forward in time serves backward too, with the chain reversed.
Source: Ghosh et al. (2020), Appendix D, with Z(theta, w) left out as there; tangent after Louis
(1982).
"""

from functools import reduce

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp_argnums, primitive
from numba import njit

from ..checks import real_or_box

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def _log_sum(terms):
    """log sum exp, for terms of any size; of -inf alone, -inf."""
    top = terms.max()
    if top == -np.inf:
        return top
    total = 0.0
    for x in terms:
        total += np.exp(x - top)
    return top + np.log(total)


@_jit
def _filter(node, edge):
    """Logarithms of the normalised forward messages (T, K), and log Z."""
    n_sites, n_states = node.shape
    messages = node.copy()
    reach = np.empty(n_states)
    log_z = 0.0
    for t in range(n_sites):
        for j in range(n_states if t > 0 else 0):
            for i in range(n_states):
                reach[i] = messages[t - 1, i] + edge[t - 1, i, j]
            messages[t, j] += _log_sum(reach)
        log_norm = _log_sum(messages[t])
        if log_norm > -np.inf:
            messages[t] -= log_norm
        log_z += log_norm
    return messages, log_z


def _reversed(per_site, per_edge):
    """Both in reversed time, contiguous."""
    return per_site[::-1].copy(), per_edge[::-1].transpose(0, 2, 1).copy()


def _normalised(log_rows):
    """Probabilities proportional to exp(log_rows), each row of which sums to 1."""
    top = reduce(np.maximum, log_rows.T)  # many times as fast as a maximum over short rows
    rows = np.exp(log_rows - np.where(top > -np.inf, top, 0.0)[:, None])
    return rows / np.maximum(sum(rows.T), np.finfo(float).tiny)[:, None]


def _checked(node, edge):
    """Both as finite floats, or autograd's boxes; ValueError for shapes that do not go together."""
    node = real_or_box("node", node)
    edge = real_or_box("edge", edge)
    n_sites, n_states = node.shape if node.ndim == 2 else (0, 0)
    if not n_sites * n_states or edge.shape != (n_sites - 1, n_states, n_states):
        raise ValueError(
            f"node potentials have shape {node.shape} and edge potentials {edge.shape}: they must "
            "be (T, K) and (T - 1, K, K), with a site and a state at least"
        )
    return node, edge


def smooth(node: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, ...]:
    """(node marginals, edge marginals, log P(z_t | node and edge up to t), log Z)."""
    return smooth_finite(*_checked(node, edge))


def smooth_finite(node: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, ...]:
    """`smooth` unchecked, for kernels: contiguous floats whose sums are finite."""
    past, log_z = _filter(node, edge)
    future = _filter(*_reversed(node, edge))[0][::-1]  # own node included, as in past
    with np.errstate(invalid="ignore"):  # of -inf less -inf, where a state is impossible
        gamma = _normalised(np.where(node > -np.inf, past + (future - node), -np.inf))
    pairs = past[:-1, :, None] + edge + future[1:, None]
    xi = _normalised(pairs.reshape(-1, node.shape[1] ** 2))
    return gamma, xi.reshape(edge.shape), past, log_z


@_jit
def _past_score(gamma, xi, d_node, d_edge):
    """E[score of all before site t | z_t = k] (T, K), minus its posterior mean."""
    score = np.zeros(gamma.shape)
    n_states = gamma.shape[1]
    for t in range(1, len(gamma)):
        mean = 0.0
        for j in range(n_states):
            mass = 0.0
            for i in range(n_states):
                before = score[t - 1, i] + d_node[t - 1, i] + d_edge[t - 1, i, j]
                score[t, j] += xi[t - 1, i, j] * before
                mass += xi[t - 1, i, j]
            score[t, j] = score[t, j] / mass if mass > 0.0 else 0.0
            mean += gamma[t, j] * score[t, j]
        score[t] -= mean
    return score


def _tangent(node, edge, d_node, d_edge):
    gamma, xi, *_ = smooth_finite(node, edge)
    return _tangent_of(gamma, xi, d_node, d_edge)


def _tangent_of(
    gamma: np.ndarray, xi: np.ndarray, d_node: np.ndarray, d_edge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How these marginals move: Cov(score, 1{z_t}) and Cov(score, 1{z_t, z_t+1}); unchecked."""
    past = _past_score(gamma, xi, d_node, d_edge)
    future = _past_score(*_reversed(gamma, xi), *_reversed(d_node, d_edge))[::-1]
    before = past + d_node
    after = future + d_node
    of_edge = before[:-1, :, None] + d_edge + after[1:, None]
    return _covariance(gamma, before + future, 1), _covariance(xi, of_edge, (1, 2))


def _covariance(p, score, axes):
    mean = np.sum(p * score, axis=axes, keepdims=True)
    return p * (score - mean)


def log_partition(node: np.ndarray, edge: np.ndarray) -> float:
    """log Z of a chain with node potentials (T, K) and edge potentials (T - 1, K, K)."""
    return _log_partition(*_checked(node, edge))


@primitive
def _log_partition(node, edge):
    return _filter(node, edge)[1]


@primitive
def _flat_marginals(node, edge):
    gamma, xi, *_ = smooth_finite(node, edge)
    return np.concatenate([gamma.ravel(), xi.ravel()])


@primitive
def _flat_tangent(node, edge, direction):
    """Has no derivative of its own: asking for a third one raises, and never gives a silent 0."""
    parts = _tangent(node, edge, *_split(direction, node, edge))
    return np.concatenate([part.ravel() for part in parts])


def _split(flat, node, edge):
    """A flat vector as (node, edge) arrays."""
    size = np.size(node)
    return anp.reshape(flat[:size], np.shape(node)), anp.reshape(flat[size:], np.shape(edge))


def marginals(node: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P(z_t = k) (T, K), P(z_t = j, z_t+1 = k) (T - 1, K, K)); differentiable once."""
    node, edge = _checked(node, edge)
    return _split(_flat_marginals(node, edge), node, edge)


def _products(parts):
    """The reverse-mode rule whose products with g are parts(g, node, edge)."""
    return lambda argnums, ans, args, kwargs: lambda g: [parts(g, *args)[i] for i in argnums]


defvjp_argnums(_log_partition, _products(lambda g, *args: [g * part for part in marginals(*args)]))
defvjp_argnums(_flat_marginals, _products(lambda g, *args: _split(_flat_tangent(*args, g), *args)))
