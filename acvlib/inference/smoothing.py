"""Posteriors of the hidden states of many chains, scaled, not in logarithms: the one fast kernel.

Sequences stand end to end: row t of (M, K) arrays is one site, sequence n is the rows
starts[n]:starts[n + 1], and

    log Z_n = log sum_z exp( start[z_1] + sum_t density[t, z_t]
                             + sum_t transition[z_t, z_t+1] + end[z_T] )

Rows of densities are divided by their largest entry, forward messages by their sum. The backward
pass goes from posterior to posterior, gamma_{t-1}(j) = filtered_{t-1}(j) sum_k A_jk gamma_t(k) /
predicted_t(k), and has no beta that could overflow. A path that underflows is lost to one that
jumps, as long as no jump is nearly impossible: chains with a potential `UNLIKELY` nats below the
largest of its kind, or where a jump or a state is impossible (-inf) and paths that underflow, maybe
over many rows, matter, are summed in logarithms by `chain` instead, which is exact and slower.
Where no path is possible, log Z is -inf and all posteriors are 0.
"""

from functools import cache, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit

from . import chain

UNLIKELY = 460.0  # log 1e200: underflow, at 1e-308, then hides a share of at most 1e-100
LOST = 1e-290  # below this, a filtered probability may lose digits, or be 0
SHARE = 1e-10  # of a probability, that lost paths may have
TINY = 1e-307  # beside a divisor, which may be 0: 0 / 0 is 0 here
UNROLLED = 12  # states up to which a kernel of constant length is faster, 1.2 to 2 times

_jit = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)


class Factors(NamedTuple):
    """Densities without their scale: `scaled` (M, K), each row with maximum 1; `log_scale` (M,).

    Where no state is possible, the row is 0. log_density (M, K): what `scaled` may have lost to
    underflow.
    """

    scaled: np.ndarray
    log_scale: np.ndarray
    log_density: np.ndarray


class Smoothed(NamedTuple):
    """Posteriors of all sequences.

    log_z (N,); gamma (M, K): P(z_t | all); filtered (M, K): P(z_t | x_1..t);
    ahead (M, K) and transition (K, K) such that P(z_t-1 = j, z_t = k | all) is
    filtered[t - 1, j] transition[j, k] ahead[t, k]; ahead is 0 in the first row of a sequence.
    pairs (M, K, K): these probabilities, given only where the factors may underflow.
    """

    log_z: np.ndarray
    gamma: np.ndarray
    filtered: np.ndarray
    ahead: np.ndarray
    transition: np.ndarray
    pairs: np.ndarray | None = None


def factors(log_density: np.ndarray) -> Factors:
    """`Factors` of log_density (M, K); -inf forbids a state."""
    log_scale = reduce(np.maximum, log_density.T)
    log_scale[log_scale == -np.inf] = 0.0
    return Factors(np.exp(log_density - log_scale[:, None]), log_scale, log_density)


def smooth(
    density: Factors,
    starts: np.ndarray,
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_end: np.ndarray | None = None,
) -> Smoothed:
    """Smooth all sequences.

    Parameters
    ----------
    density: `factors` of the (M, K) log-densities, or log-potentials, of the sites.
    starts: (N + 1,) first row of each sequence, of one row or more, and M.
    log_start, log_transition, log_end: (K,), (K, K), (K,) log-potentials of any scale, or -inf.
    """
    log_end = np.zeros_like(log_start) if log_end is None else log_end
    potentials = [log_start, log_transition, log_end]
    possible = [part[part > -np.inf] for part in potentials]
    is_near = all(np.ptp(part) <= UNLIKELY for part in possible if part.size)
    if not is_near:
        return _smooth_in_logarithms(density, starts, *potentials)
    tops = [part.max() for part in potentials]
    start, transition, end = (np.exp(p - top) for p, top in zip(potentials, tops, strict=True))
    gamma, filtered, ahead, norm = passes(density.scaled, starts, transition, start, end)
    with np.errstate(divide="ignore"):
        log_z = np.add.reduceat(np.log(norm) + density.log_scale, starts[:-1])
    n_moves = np.diff(starts) - 1
    log_z += tops[0] + tops[2] + n_moves * tops[1]
    if _underflows(density, starts, potentials, filtered):
        for n, (rows, *part) in enumerate(_in_logarithms(density, starts, *potentials)):
            past, exact = chain.filter_finite(*part)
            apart = abs(np.exp(past) - filtered[rows])[:-1]  # the last row has its end, too
            if not np.isclose(log_z[n], exact, rtol=1e-12, atol=SHARE) or (apart > SHARE).any():
                return _smooth_in_logarithms(density, starts, *potentials)
    return Smoothed(log_z, gamma, filtered, ahead, transition)


def _underflows(density, starts, potentials, filtered):
    """Whether something is impossible, and what is possible has lost its filtered probability."""
    beside = density.log_density[density.scaled == 0.0]
    if not any((part == -np.inf).any() for part in [*potentials, beside]):
        return False
    log_start, log_transition, _ = potentials
    reached = np.roll(filtered > 0.0, 1, axis=0) @ (log_transition > -np.inf)
    reached[starts[:-1]] = log_start > -np.inf
    return bool((reached & (density.log_density > -np.inf) & (filtered < LOST)).any())


def passes(
    scaled: np.ndarray,
    starts: np.ndarray,
    transition: np.ndarray,
    start: np.ndarray | float = 1.0,
    end: np.ndarray | float = 1.0,
) -> tuple[np.ndarray, ...]:
    """(gamma, filtered, ahead, norm (M,)) of `Smoothed`, from factors that are real, or complex.

    log Z_n is the sum of the logarithms of norm over the rows of a sequence.
    """
    n_sites, n_states = scaled.shape
    kind = scaled.dtype
    gamma, filtered, ahead = np.empty((3, n_sites, n_states), kind)
    norm = np.empty(n_sites, kind)
    start, end = (np.full(n_states, part, kind) for part in (start, end))
    kernel = _kernel(n_states if n_states <= UNROLLED else 0)
    kernel(scaled, starts, start, transition, end, filtered, ahead, gamma, norm)
    return gamma, filtered, ahead, norm


@cache
def _kernel(constant):
    """The two passes, compiled for a constant number of states, or for any number if it is 0."""

    @_jit
    def forward_backward(
        factor: np.ndarray,
        starts: np.ndarray,
        start: np.ndarray,
        transition: np.ndarray,
        end: np.ndarray,
        filtered: np.ndarray,
        ahead: np.ndarray,
        gamma: np.ndarray,
        norm: np.ndarray,
    ):
        # ahead holds P(z_t | x_1..t-1) until the backward pass reaches it
        K = constant if constant else len(start)
        backward = transition.T.copy()
        for s in range(len(starts) - 1):
            first = starts[s]
            last = starts[s + 1] - 1
            for t in range(first, last + 1):
                for j in range(K):
                    ahead[t, j] = start[j] if t == first else 0.0
                for i in range(K if t > first else 0):
                    mass = filtered[t - 1, i]
                    for j in range(K):
                        ahead[t, j] += mass * transition[i, j]
                total = 0.0
                for j in range(K):
                    filtered[t, j] = ahead[t, j] * factor[t, j]
                    total += filtered[t, j]
                inverse = 1.0 / (total + TINY)
                for j in range(K):
                    filtered[t, j] *= inverse
                norm[t] = total
            total = 0.0
            for j in range(K):
                gamma[last, j] = filtered[last, j] * end[j]
                total += gamma[last, j]
            inverse = 1.0 / (total + TINY)
            for j in range(K):
                gamma[last, j] *= inverse
            norm[last] *= total
            for t in range(last, first, -1):
                for j in range(K):
                    ahead[t, j] = gamma[t, j] / (ahead[t, j] + TINY)
                    gamma[t - 1, j] = 0.0
                for j in range(K):
                    ratio = ahead[t, j]
                    for i in range(K):
                        gamma[t - 1, i] += backward[j, i] * ratio
                for i in range(K):
                    gamma[t - 1, i] *= filtered[t - 1, i]
            ahead[first] = 0.0

    return forward_backward


def _in_logarithms(density, starts, log_start, log_transition, log_end):
    """(rows, node, edge) of each sequence, log-potentials as `chain` takes them."""
    node = density.log_density.copy()
    node[starts[:-1]] += log_start
    node[starts[1:] - 1] += log_end
    for first, stop in pairwise(starts):
        edge = np.broadcast_to(log_transition, (stop - first - 1, *log_transition.shape))
        yield slice(first, stop), node[first:stop], edge


def _smooth_in_logarithms(density, starts, log_start, log_transition, log_end):
    n_sites, n_states = density.scaled.shape
    gamma, filtered, ahead = np.zeros((3, n_sites, n_states))
    pairs = np.zeros((n_sites, n_states, n_states))
    log_z = np.empty(len(starts) - 1)
    transition = np.exp(log_transition - log_transition.max())
    parts = _in_logarithms(density, starts, log_start, log_transition, log_end)
    for n, (rows, *potentials) in enumerate(parts):
        found = chain.smooth_finite(*potentials)
        gamma[rows], pairs[rows.start + 1 : rows.stop], log_filtered, log_z[n] = found
        filtered[rows] = np.exp(log_filtered)
    predicted = np.roll(filtered, 1, axis=0) @ transition
    with np.errstate(over="ignore"):  # where `pairs` stand in for it
        np.divide(gamma, predicted, out=ahead, where=(gamma > 0.0) & (predicted > 0.0))
    ahead[starts[:-1]] = 0.0
    return Smoothed(log_z, gamma, filtered, ahead, transition, pairs)


def transition_counts(
    smoothed: Smoothed, starts: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Expected moves from state j to k in each sequence, (N, K, K); with weights (N,) their sum."""
    if smoothed.pairs is None:
        counts = _pair_sums(smoothed.filtered, smoothed.ahead, starts) * smoothed.transition
    else:
        counts = np.add.reduceat(smoothed.pairs, starts[:-1])
    return counts if weights is None else np.tensordot(weights, counts, 1)


@_jit
def _pair_sums(filtered, ahead, starts):
    """sum_t filtered_t-1 ahead_t' of each sequence, (N, K, K)."""
    n_states = filtered.shape[1]
    sums = np.zeros((len(starts) - 1, n_states, n_states))
    for n in range(len(starts) - 1):
        for t in range(starts[n] + 1, starts[n + 1]):
            for i in range(n_states):
                mass = filtered[t - 1, i]
                for j in range(n_states):
                    sums[n, i, j] += mass * ahead[t, j]
    return sums


@_jit
def best_states(
    log_density: np.ndarray,
    starts: np.ndarray,
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_end: np.ndarray,
) -> np.ndarray:
    """The most probable states of every sequence, (M,), by Viterbi's recursion."""
    n_sites, n_states = log_density.shape
    best = np.empty(n_sites, np.int64)
    came = np.empty((n_sites, n_states), np.int32)
    reach, ahead = np.empty((2, n_states))
    for n in range(len(starts) - 1):
        first = starts[n]
        last = starts[n + 1] - 1
        for j in range(n_states):
            reach[j] = log_start[j] + log_density[first, j]
        for t in range(first + 1, last + 1):
            for j in range(n_states):
                ahead[j] = -np.inf
                came[t, j] = 0
            for i in range(n_states):
                for j in range(n_states):
                    through = reach[i] + log_transition[i, j]
                    if through > ahead[j]:
                        ahead[j] = through
                        came[t, j] = i
            for j in range(n_states):
                reach[j] = ahead[j] + log_density[t, j]
        best[last] = np.argmax(reach + log_end)
        for t in range(last, first, -1):
            best[t - 1] = came[t, best[t]]
    return best
