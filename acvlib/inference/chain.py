"""Exact sums over the hidden states of a chain, differentiable twice by autograd.

    log Z = log sum_z exp( sum_t node[t, z_t] + sum_t edge[t, z_t, z_t+1] )

Two primitives suffice for second derivatives: the gradient of log Z is the marginals, and the
Hessian of log Z is symmetric, so the reverse-mode product of the marginals is their directional
derivative: the imaginary part after an imaginary step, whose square is lost. Potentials must be
finite: a weight of 0 times -inf is nan. Reverse mode only. It is the reference that the kernels of
`smoothing` are tested against.

Shapes: node (T, K), edge (T - 1, K, K); marginals likewise. Cost O(T K^2) for each function. What
runs forward in time serves backward too, with the chain reversed.
Source: Ghosh et al. (2020), Appendix D, with Z(theta, w) left out as there.
"""

from collections.abc import Callable
from functools import reduce
from typing import Annotated, Any

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp, primitive
from numba import njit
from scipy.special import logsumexp

from ..checks import real_or_box
from ..declared import Is, Real, declared
from ..folds import Fold
from ..folds import weights as fold_weights
from ..weighting import FactorWeights, check, keep_latents

STEP = 1e-30
Density = Annotated[Any, Real("n_sites n_states")]
Initial = Annotated[Any, Real("n_states")]
Transition = Annotated[Any, Real("n_states n_states")]

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def _log_sum(terms):
    """log sum exp, for terms of any size; of -inf alone, -inf."""
    top = terms.real.max()
    if top == -np.inf:
        return terms[0]
    total = np.exp(terms[0] - top)
    for x in terms[1:]:
        total += np.exp(x - top)
    return top + np.log(total)


@_jit
def filter_finite(node, edge):
    """Logarithms of the normalised forward messages (T, K), and log Z."""
    n_sites, n_states = node.shape
    messages = node.copy()
    reach = np.empty_like(node[0])
    log_z = np.zeros(1, node.dtype)[0]
    for t in range(n_sites):
        for j in range(n_states if t > 0 else 0):
            for i in range(n_states):
                reach[i] = messages[t - 1, i] + edge[t - 1, i, j]
            messages[t, j] += _log_sum(reach)
        log_norm = _log_sum(messages[t])
        if log_norm.real > -np.inf:
            for j in range(n_states):
                messages[t, j] -= log_norm
        log_z += log_norm
    return messages, log_z


def _normalised(log_rows):
    """Probabilities proportional to exp(log_rows), each row of which sums to 1."""
    top = reduce(np.maximum, log_rows.real.T)  # many times as fast as a maximum over short rows
    rows = np.exp(log_rows - np.where(top > -np.inf, top, 0.0)[:, None])
    total = sum(rows.T)
    return rows / np.where(total == 0.0, 1.0, total)[:, None]


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


def smooth_finite(node: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, ...]:
    """(node marginals, edge marginals, log P(z_t | node and edge up to t), log Z); unchecked."""
    past, log_z = filter_finite(node, edge)
    backwards = filter_finite(node[::-1].copy(), edge[::-1].transpose(0, 2, 1).copy())
    future = backwards[0][::-1]  # own node included, as in past
    with np.errstate(invalid="ignore"):  # of -inf less -inf, where a state is impossible
        gamma = _normalised(np.where(node.real > -np.inf, past + (future - node), -np.inf))
    pairs = past[:-1, :, None] + edge + future[1:, None]
    xi = _normalised(pairs.reshape(-1, node.shape[1] ** 2))
    return gamma, xi.reshape(edge.shape), past, log_z


def differentiable(log_z: Callable, mean: Callable) -> tuple[Callable, Callable]:
    """log Z of flat potentials, and its gradient, as functions that autograd follows.

    Both take the potentials first, real or complex; what comes after them is fixed.
    """

    @primitive
    def log_partition(flat: np.ndarray, *fixed):
        return log_z(flat, *fixed)

    @primitive
    def marginals(flat: np.ndarray, *fixed):
        return mean(flat, *fixed)

    @primitive
    def flat_tangent(flat: np.ndarray, direction: np.ndarray, *fixed):
        """Has no derivative of its own: asking for a third one raises, and gives no silent 0."""
        size = abs(direction).max() or 1.0
        return mean(flat + 1j * STEP / size * direction, *fixed).imag * (size / STEP)

    def by_marginals(ans: np.ndarray, flat: np.ndarray, *fixed):
        return lambda g: g * marginals(flat, *fixed)

    def by_tangent(ans: np.ndarray, flat: np.ndarray, *fixed):
        return lambda g: flat_tangent(flat, g, *fixed)

    defvjp(log_partition, by_marginals, argnums=[0])
    defvjp(marginals, by_tangent, argnums=[0])
    return log_partition, marginals


def flat(node: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """Both potentials as one vector, so that one argument has derivatives."""
    return anp.concatenate([anp.ravel(node), anp.ravel(edge)])


def split(potentials: np.ndarray, n_sites: int, n_states: int) -> tuple[np.ndarray, np.ndarray]:
    """(node (n, K), edge (m, K, K)): the inverse of `flat`."""
    size = n_sites * n_states
    node = anp.reshape(potentials[:size], (n_sites, n_states))
    return node, anp.reshape(potentials[size:], (-1, n_states, n_states))


_log_partition, _marginals = differentiable(
    lambda potentials, *shape: filter_finite(*split(potentials, *shape))[1],
    lambda potentials, *shape: flat(*smooth_finite(*split(potentials, *shape))[:2]),
)


def log_partition(node: np.ndarray, edge: np.ndarray) -> float:
    """log Z of a chain with node potentials (T, K) and edge potentials (T - 1, K, K)."""
    node, edge = _checked(node, edge)
    return _log_partition(flat(node, edge), *node.shape)


def marginals(node: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P(z_t = k) (T, K), P(z_t = j, z_t+1 = k) (T - 1, K, K)); differentiable once."""
    node, edge = _checked(node, edge)
    return split(_marginals(flat(node, edge), *node.shape), *node.shape)


# hidden Markov models: weighted potentials, and the loss of left-out time steps


@declared
def potentials(
    scheme: Annotated[Callable, Is()],
    weights: np.ndarray,
    log_density: Density,
    log_initial: Initial,
    log_transition: Transition,
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted (node (T, K), edge (T - 1, K, K)) of a chain, by a scheme of `acvlib.weighting`.

    Shapes: weights (T,), log_density (T, K), log_initial (K,), log_transition (K, K).
    """
    check(weights, len(log_density))
    steps = np.arange(len(log_density))
    edges = np.stack([steps[:-1], steps[1:]], axis=1)
    factor = FactorWeights.of(scheme, real_or_box("weights", weights), edges)
    first = (steps == 0)[:, None] * log_initial
    node = factor.observation[:, None] * log_density + factor.latent[:, None] * first
    return node, factor.edge[:, None, None] * log_transition


@declared
def heldout_loss(
    log_density: Density, log_initial: Initial, log_transition: Transition, fold: Fold
) -> np.ndarray:
    """-log sum_k P(z_t = k | x outside the fold) p(x_t | k), for each t of the fold."""
    weights = fold_weights(len(log_density), fold)
    node, edge = potentials(keep_latents, weights, log_density, log_initial, log_transition)
    gamma, _ = marginals(node, edge)
    return -logsumexp(log_density[fold], b=gamma[fold], axis=1)
