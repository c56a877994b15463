"""Exact sums over the hidden states of a chain, differentiable twice by autograd.

    log Z = log sum_z exp( sum_t node[t, z_t] + sum_t edge[t, z_t, z_t+1] )

Two primitives suffice for second derivatives: the gradient of log Z is the marginals, and the
Hessian of log Z is symmetric, so the reverse-mode product of the marginals is their directional
derivative. Potentials must be finite: a weight of 0 times -inf is nan. Reverse mode only.

Shapes: node (T, K), edge (T - 1, K, K); marginals likewise. Cost O(T K^2) for each function.
Source: Ghosh et al. (2020), Appendix D, with Z(theta, w) left out as there; tangent after Louis
(1982).
"""

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp_argnums, primitive
from numba import njit

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def _log_sum(terms):
    """log sum exp, for finite terms of any size."""
    top, total = terms.max(), 0.0
    for x in terms:
        total += np.exp(x - top)
    return top + np.log(total)


@_jit
def _filter(node, edge):
    """Logarithms of the normalised forward messages (T, K) and of their normalisers (T,), and log
    Z.
    """
    n, k = node.shape
    log_alpha, log_norm, reach = node.copy(), np.empty(n), np.empty(k)
    for t in range(n):
        for j in range(k if t > 0 else 0):
            for i in range(k):
                reach[i] = log_alpha[t - 1, i] + edge[t - 1, i, j]
            log_alpha[t, j] += _log_sum(reach)
        log_norm[t] = _log_sum(log_alpha[t])
        log_alpha[t] -= log_norm[t]
    return log_alpha, log_norm, log_norm.sum()


@_jit
def _smooth(node, edge):
    """(node marginals, edge marginals, log forward messages)."""
    n, k = node.shape
    log_alpha, log_norm, _ = _filter(node, edge)
    gamma, xi = np.empty((n, k)), np.empty((n - 1, k, k))
    gamma[-1] = np.exp(log_alpha[-1])
    log_beta, ahead, step = np.zeros(k), np.empty(k), np.empty(k)
    for t in range(n - 1, 0, -1):
        ahead[:] = node[t] + log_beta - log_norm[t]
        for i in range(k):
            for j in range(k):
                step[j] = edge[t - 1, i, j] + ahead[j]
                xi[t - 1, i, j] = np.exp(log_alpha[t - 1, i] + step[j])
            log_beta[i] = _log_sum(step)
        gamma[t - 1] = np.exp(log_alpha[t - 1] + log_beta)
    return gamma, xi, log_alpha


@_jit
def _tangent(node, edge, d_node, d_edge):
    """Directional derivative of the marginals along (d_node, d_edge):
    Cov(S, 1{z_t}) and Cov(S, 1{z_t, z_t+1}).

    past[t, k] = E[S up to t | z_t = k, x_1..t] and future[t, k] = E[S after t | z_t = k, x_t+1..T],
    centred.
    """
    n, k = node.shape
    gamma, xi, log_alpha = _smooth(node, edge)
    reach = np.empty(k)
    past, future = np.zeros((n, k)), np.zeros((n, k))
    past[0] = d_node[0] - (gamma[0] * d_node[0]).sum()
    for t in range(1, n):
        for j in range(k):
            for i in range(k):
                reach[i] = log_alpha[t - 1, i] + edge[t - 1, i, j]
            top, mass, total = reach.max(), 0.0, 0.0
            for i in range(k):
                back = np.exp(reach[i] - top)
                mass += back
                total += back * (past[t - 1, i] + d_edge[t - 1, i, j])
            past[t, j] = d_node[t, j] + total / mass
        past[t] -= (gamma[t] * past[t]).sum()
    d_gamma, d_xi = np.empty((n, k)), np.empty((n - 1, k, k))
    for t in range(n - 1, -1, -1):
        if t < n - 1:
            for i in range(k):
                total, mass = 0.0, 0.0
                for j in range(k):
                    total += xi[t, i, j] * (d_edge[t, i, j] + d_node[t + 1, j] + future[t + 1, j])
                    mass += xi[t, i, j]
                future[t, i] = total / mass if mass > 0.0 else 0.0
            future[t] -= (gamma[t] * future[t]).sum()
            mean = 0.0
            for i in range(k):
                for j in range(k):
                    d_xi[t, i, j] = (
                        past[t, i] + d_edge[t, i, j] + d_node[t + 1, j] + future[t + 1, j]
                    )
                    mean += xi[t, i, j] * d_xi[t, i, j]
            d_xi[t] = xi[t] * (d_xi[t] - mean)
        d_gamma[t] = gamma[t] * (past[t] + future[t] - (gamma[t] * (past[t] + future[t])).sum())
    return d_gamma, d_xi


@primitive
def log_partition(node: np.ndarray, edge: np.ndarray) -> float:
    """log Z of a chain with node potentials (T, K) and edge potentials (T - 1, K, K), a float."""
    return _filter(node, edge)[2]


@primitive
def _flat_marginals(node, edge):
    gamma, xi, _ = _smooth(node, edge)
    return np.concatenate([gamma.ravel(), xi.ravel()])


@primitive
def _flat_tangent(node, edge, direction):
    """Has no derivative of its own: asking for a third one raises, and never gives a silent
    zero.
    """
    return np.concatenate(
        [part.ravel() for part in _tangent(node, edge, *_split(direction, node, edge))]
    )


def _split(flat, node, edge):
    """A flat vector as (node, edge) arrays; contiguous, as the kernels expect."""
    n = int(np.prod(np.shape(node)))
    return anp.reshape(flat[:n], np.shape(node)), anp.reshape(flat[n:], np.shape(edge))


def marginals(node: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P(z_t = k) (T, K), P(z_t = j, z_t+1 = k) (T - 1, K, K)) of a chain; differentiable once."""
    return _split(_flat_marginals(node, edge), node, edge)


def _select(parts, argnums):
    return tuple(parts[i] for i in argnums)


defvjp_argnums(
    log_partition,
    lambda argnums, ans, args, kwargs: (
        lambda g: _select([g * part for part in marginals(*args)], argnums)
    ),
)
defvjp_argnums(
    _flat_marginals,
    lambda argnums, ans, args, kwargs: (
        lambda g: _select(_split(_flat_tangent(*args, g), *args), argnums)
    ),
)
