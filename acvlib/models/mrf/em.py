"""Expectation maximisation of a `HiddenMRF`, the way the paper fits it (Ghosh et al. 2020, Appendix L.3).

E-step: P(z_t = k | x) by variable elimination. M-step: rate_k = sum_t w_t P(z_t = k) x_t / sum_t w_t P(z_t = k).
"""

from typing import NamedTuple

import numpy as np

from .derivatives import Expansion

TOLERANCE = 1e-9  # of a step in the log rates: about 1e-7 standard errors from the optimum, as steps shrink linearly
MAX_STEPS = 2000


class EMFit(NamedTuple):
    """params (K,), log rates in ascending order; steps taken; whether the last one was small enough."""

    params: np.ndarray
    steps: int
    converged: bool


def em(model, weights=None, start=None, tolerance=TOLERANCE, max_steps=MAX_STEPS):
    """argmin F(params, weights) by EM from `start`, by default `model.initial_params()`: an `EMFit`.

    States are sorted at the end: a cold start may end at any labelling.
    """
    weights = np.ones(model.n_sites) if weights is None else weights
    params, step = np.array(model.initial_params() if start is None else start, float), np.inf
    steps = 0
    while step > tolerance and steps < max_steps:
        params, before = maximise(model, params, weights), params
        step, steps = np.abs(params - before).max(), steps + 1
    return EMFit(np.sort(params), steps, bool(step <= tolerance))


def maximise(model, params, weights):
    """One E-step and one M-step."""
    expansion = Expansion(model, params, weights)
    kept = expansion.factor.observation[:, None] * expansion.posterior.marginals()[0]
    return np.log(kept.T @ model.counts) - np.log(kept.sum(axis=0))
