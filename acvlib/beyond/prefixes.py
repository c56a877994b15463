"""The site after each prefix of a chain, and the gradient of every log p(x_1..t): one forward pass.

With u_t(k) = E[d log p(x_1..t, z_1..t) / dparams | z_t = k, x_1..t], the filter's sensitivities,

    d log p(x_1..t) / dparams = sum_k P(z_t = k | x_1..t) u_t(k)
    u_t(k) = sum_j P(z_t-1 = j | z_t = k, x_1..t-1) (u_t-1(j) + d log A_jk) + d log p(x_t | k)

Time O(K^2 D) a site.
Source: Cappé, Moulines and Rydén (2005), section 10.2.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..derivatives import Derivatives
from ..inference.smoothing import TINY, UNLIKELY, factors
from ..inference.two_state import N_PARAMS, TO0, TO1
from ..models import HMM, PoissonTraffic
from ..models.hmm.posterior import hidden_states
from ..models.traffic.emission import CompleteData
from ..weighting import keep_latents

_FAST = {"contract", "nsz", "arcp", "reassoc"}
_inline = njit(inline="always", error_model="numpy", fastmath=_FAST)
_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)


class Chain(NamedTuple):
    """A chain at some params, its logarithms and their derivatives (scores) in tables.

    row (T,): of each site in the tables of densities, -1 where missing
    bounds (N + 1,): where each sequence begins, and the last ends
    log_density (C, K), density_score (C, K, m), and places (K, m) of these m parameters among all D
    log_initial (K,), initial_score (K, D); log_transition (K, K), transition_score (K, K, D)
    """

    row: np.ndarray
    bounds: np.ndarray
    log_density: np.ndarray
    density_score: np.ndarray
    places: np.ndarray
    log_initial: np.ndarray
    initial_score: np.ndarray
    log_transition: np.ndarray
    transition_score: np.ndarray
    underflows: bool = False


class Futures(NamedTuple):
    """What n prefixes of N sequences say, and what the site after each adds.

    gradient (n, D): of log p(prefix), summed over sequences, which end where they end; log_p (n, N)
    is log p(site | prefix), 0 where it is missing or there is none; slopes (n, N, D) are its
    derivatives.
    """

    gradient: np.ndarray
    log_p: np.ndarray
    slopes: np.ndarray


def futures(derivatives: Derivatives, params: np.ndarray, starts: np.ndarray) -> Futures:
    """Of ascending times >= 1 since each sequence began, given all before, at params (D,).

    Raises TypeError for a model that is no series in time; ValueError where a transition, or a
    density beside forbidden ones, is so unlikely that a path would underflow.
    """
    model = derivatives.model
    if isinstance(model, HMM):
        chain, free = _of_hmm(model, params)
    elif isinstance(model, PoissonTraffic) and model.scheme is keep_latents:
        chain, free = _of_traffic(model, params), np.arange(N_PARAMS)
    else:
        name = f"{type(model).__name__} is no series in time, or not under keep_latents"
        raise TypeError(f"{name}: give an HMM or PoissonTraffic")
    possible = chain.log_transition[chain.log_transition > -np.inf]
    if np.ptp(possible) > UNLIKELY:
        least = possible.min()
        raise ValueError(f"a transition has log probability {least:.3g}: hold it, or use a prior")
    if chain.underflows:
        raise ValueError("densities underflow beside states or moves that cannot happen")
    factor, top, _ = factors(chain.log_density)  # densities over their highest, and that
    tables = [chain.row.astype(np.int64), factor, top, chain.density_score, chain.places]
    tables += [np.exp(chain.log_initial), chain.initial_score]
    tables += [np.exp(chain.log_transition), chain.transition_score]
    every = tuple(map(np.ascontiguousarray, tables))
    n, n_params = len(starts), chain.initial_score.shape[1]
    n_sequences = len(chain.bounds) - 1
    gradient = np.zeros((n, n_params))
    log_p = np.zeros((n_sequences, n))
    slopes = np.zeros((n_sequences, n, n_params))
    for i, (first, end) in enumerate(pairwise(chain.bounds)):
        prefixes = np.zeros((n, n_params))
        _sweep(every, first, end, starts, prefixes, log_p[i], slopes[i])
        gradient += prefixes
    return Futures(gradient[:, free], log_p.T, slopes.swapaxes(0, 1)[:, :, free])


def _of_hmm(model: Any, params: np.ndarray) -> tuple[Chain, np.ndarray]:
    """The filter through all frames of an HMM, and which of its scores are of params."""
    if model.sites != "steps":
        raise ValueError('sites are whole sequences, which have no future: give sites="steps"')
    if (model.sample_weight != 1.0).any():
        raise ValueError("sample_weight: leave_future_out takes a model without")
    if model.known_states is not None:
        what = "known_states: leave_future_out takes a model without, as later ones would be known"
        raise ValueError(f"{what}; acv.exact on folds.leave_future_out takes all of them as given")
    hidden = hidden_states(model, params, np.ones(model.n_sites))
    k = model.n_states
    scores = [model.emission.scores(hidden.rows, state, hidden.frames) for state in range(k)]
    n_shared = model.emission.n_shared
    n_front = k * (k + 1) + n_shared
    n_each = hidden.rows.shape[1] - n_shared
    shared = k * (k + 1) + np.tile(np.arange(n_shared), (k, 1))
    of_states = n_front + np.arange(k * n_each).reshape(k, n_each)
    of_chain = np.zeros((k + 1, k, n_front + k * n_each))
    units = np.repeat(np.eye(k)[:, None], k + 1, axis=1)
    moved = model.chain_prior.moved_log_p(units, hidden.p).transpose(1, 2, 0)
    for row in range(k + 1):
        of_chain[row, :, row * k : (row + 1) * k] = moved[row]
    parts = [np.flatnonzero(model.chain_prior.kept), k * (k + 1) + np.arange(n_shared)]
    free = np.concatenate([*parts, of_states[model.kept_in_states]])[-model.n_params :]
    chain = Chain(
        row=np.where(hidden.frames.observed, np.arange(len(hidden.frames.x)), -1),
        bounds=hidden.frames.starts,
        log_density=hidden.log_density,
        density_score=np.stack(scores, axis=1),
        places=np.hstack([shared, of_states]),
        log_initial=hidden.log_p[0],
        initial_score=of_chain[0],
        log_transition=hidden.log_p[1:],
        transition_score=of_chain[1:],
        underflows=hidden.smoothed.pairs is not None,
    )
    return chain, free


def _of_traffic(model: Any, params: np.ndarray) -> Chain:
    data = CompleteData(model.classes, params[None])
    quiet, ratio = data.score_tables()[:, :, :TO0]
    initial, transition = model.log_chain(params)
    (stay0, leave0), (leave1, stay1) = np.exp(transition)
    p0, p1 = np.exp(initial)
    first_score = np.zeros((2, N_PARAMS))
    first_score[:, TO0:] = [[p1 * stay0, -p1 * stay1], [-p0 * stay0, p0 * stay1]]
    move_score = np.zeros((2, 2, N_PARAMS))
    move_score[0, :, TO0] = leave0, -stay0
    move_score[1, :, TO1] = -stay1, leave1
    return Chain(
        row=np.where(model.observed, model.classes.of_site, -1),
        bounds=np.array([0, model.n_sites]),
        log_density=data.log_density[:, :, 0].T,
        density_score=np.stack([quiet, quiet + ratio], axis=1),
        places=np.tile(np.arange(TO0), (2, 1)),
        log_initial=initial,
        initial_score=first_score,
        log_transition=transition,
        transition_score=move_score,
    )


@_jit
def _sweep(tables, first, end, starts, gradient, log_p, slopes):
    """Fills the arrays of `Futures` of the sequence of sites first ... end - 1.

    p and u are the filter and its sensitivities, in turns.
    """
    p = np.zeros((2, len(tables[5])))
    u = np.zeros((2, p.shape[1], gradient.shape[1]))
    row = now = 0
    for t in range(min(starts[-1] + 1, end - first)):
        gain = _step(tables, first, t, p, u)
        now = t % 2
        if t == starts[row]:
            log_p[row] = gain
            _mean(p[now], u[now], slopes[row])
            for d in range(slopes.shape[1]):
                slopes[row, d] -= gradient[row, d]
            row += 1
        if row < len(starts) and t + 1 == starts[row]:
            _mean(p[now], u[now], gradient[row])
    for later in range(row, len(starts)):  # the whole sequence
        _mean(p[now], u[now], gradient[later])


@_inline
def _step(tables, first_site, t, p, u):
    """P(z_t = k | x_1..t) and sensitivities from those of t - 1; log p(x_t | x_1..t-1).

    Where x_t is missing, given x_1..t-1, and 0.
    """
    row, factor, log_scale, score, places, first, first_score, transition, move_score = tables
    n_states, n_params = first_score.shape
    target = t % 2
    source = 1 - target
    r = row[first_site + t]
    norm = 0.0
    for k in range(n_states):
        reach = first[k] if t == 0 else 0.0
        for j in range(n_states if t > 0 else 0):
            reach += p[source, j] * transition[j, k]
        inverse = 1.0 / (reach + TINY)
        for d in range(n_params):
            u[target, k, d] = first_score[k, d] if t == 0 else 0.0
        for j in range(n_states if t > 0 else 0):
            share = p[source, j] * transition[j, k] * inverse
            for d in range(n_params):
                u[target, k, d] += share * (u[source, j, d] + move_score[j, k, d])
        for i in range(places.shape[1] if r >= 0 else 0):
            u[target, k, places[k, i]] += score[r, k, i]
        p[target, k] = reach * (factor[r, k] if r >= 0 else 1.0)
        norm += p[target, k]
    inverse = 1.0 / (norm + TINY)
    for k in range(n_states):
        p[target, k] *= inverse
    return np.log(norm) + log_scale[r] if r >= 0 else 0.0


@_inline
def _mean(p, u, out):
    """sum_k p_k u_k."""
    for d in range(len(out)):
        out[d] = 0.0
    for k in range(len(p)):
        for d in range(len(out)):
            out[d] += p[k] * u[k, d]
