"""Expectation maximisation of a `HiddenMRF`, the way the paper fits it.

E-step: P(z_t = k | x) by variable elimination.
M-step: rate_k = sum_t w_t P(z_t = k) x_t / sum_t w_t P(z_t = k) exposure_t, w_t the weight of a
count, its sample weight included.
Source: Ghosh et al. (2020), Appendix L.3.
"""

from typing import NamedTuple

import numpy as np

from ...checks import check_kind, check_whole, one_line, real_array, real_number
from . import EmptyState, HiddenMRF

TOLERANCE = 1e-9  # of a step in the log rates: about 1e-7 standard errors from the optimum
MAX_STEPS = 2000


class EMFit(NamedTuple):
    """Log rates (K,), ascending; steps taken; whether the last one was small enough."""

    params: np.ndarray
    steps: int
    converged: bool

    def __repr__(self):
        return one_line(self)


def em(
    model: HiddenMRF,
    weights: np.ndarray | None = None,
    start: np.ndarray | None = None,
    tolerance: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
) -> EMFit:
    """Minimise F(params, weights) by EM from `start`, by default `model.initial_params()`.

    States are sorted at the end: a cold start may end at any labelling. Raises EmptyState where a
    step leaves a state without sites or counts.
    """
    check_kind("model", model, HiddenMRF)
    weights = np.ones(model.n_sites) if weights is None else real_array("weights", weights, 1)
    tolerance = real_number("tolerance", tolerance, least=0.0)
    check_whole("max_steps", max_steps, 1)
    params = model.initial_params() if start is None else real_array("start", start, 1)
    step = np.inf
    steps = 0
    while step > tolerance and steps < max_steps:
        before = params
        params = maximise(model, before, weights)
        step = np.abs(params - before).max()
        steps += 1
    return EMFit(np.sort(params), steps, bool(step <= tolerance))


def maximise(model: HiddenMRF, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the params (K,) after one E-step and one M-step."""
    gamma, _ = model.posterior(params, weights).marginals()
    kept = model._factors(weights).observation[:, None] * gamma
    counts = kept.T @ model.counts
    exposure = kept.T @ model.exposure
    if not (counts.min() > 0.0 and exposure.min() > 0.0):
        held = f"{kept.sum(axis=0)} expected sites with {counts} counts"
        raise EmptyState(f"the states hold {held}: try another start, or fewer states")
    return np.log(counts) - np.log(exposure)
