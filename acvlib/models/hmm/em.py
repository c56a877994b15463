"""Maximum a posteriori by expectation maximisation, from K-means and random restarts, all sequences together.

The E-step is `Posterior`; the M-step has a closed form for Gaussian and autoregressive emissions (a conditional one
where a variance is shared: Meng and Rubin 1993). Neural emissions have none: `fit` climbs by L-BFGS.
"""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from joblib import delayed

from ...parallel import threads
from . import simplex
from .posterior import Posterior

MAX_ITERATIONS = 500
TOLERANCE = 1e-7  # of the objective, relative, between iterations
EMPTY = 2.0  # expected frames below which a state counts as emptied


class UnconvergedEM(UserWarning):
    """Expectation maximisation stopped before its objective did."""


class EmptiedState(UserWarning):
    """The data do not support all states: the prior alone fixes some."""


@dataclass(frozen=True)
class EMResult:
    """params (D,), all of them free; objectives: F at each iteration; frames (K,): expected number in each state."""

    params: np.ndarray = field(repr=False)
    objectives: np.ndarray = field(repr=False)
    frames: np.ndarray = field(repr=False)
    converged: bool


def expectation_maximisation(model, start, max_iterations=MAX_ITERATIONS, tolerance=TOLERANCE):
    """`EMResult` from start (D,), params of a model that holds nothing.

    Warns UnconvergedEM where max_iterations were not enough, EmptiedState where a state keeps fewer than two
    expected frames. Raises TypeError for an emission without closed-form M-step, ValueError where something is held.
    """
    result = _climb(model, start, max_iterations, tolerance)
    _warn(result)
    return result


def _climb(model, start, max_iterations=MAX_ITERATIONS, tolerance=TOLERANCE):
    """`expectation_maximisation` without its warnings."""
    if not hasattr(model.emission, "maximise"):
        raise TypeError(
            f"{type(model.emission).__name__} has no closed-form M-step: use fit(), by L-BFGS"
        )
    if model.held is not None:
        raise ValueError("EM fits all parameters: pass the model itself, and hold() its result")
    params, weights, objectives = np.asarray(start, float), np.ones(model.n_sites), []
    for _ in range(max_iterations):
        posterior = Posterior(model, params, weights)
        objectives.append(posterior.value())
        if len(objectives) > 1 and objectives[-2] - objectives[-1] <= tolerance * abs(
            objectives[-1]
        ):
            break
        params = m_step(posterior)
    converged = len(objectives) < max_iterations
    return EMResult(posterior.params, np.array(objectives), posterior.mass.sum(axis=0), converged)


def m_step(posterior):
    """The params (D,) that maximise the expected complete-data log posterior."""
    model = posterior.model
    pseudo = model.concentration - 1.0
    if pseudo <= 0.0:
        raise ValueError(
            f"concentration = {model.concentration}: EM needs more than 1, or rows may have no maximum"
        )
    rows = [simplex.log_ratios(counts + pseudo).ravel() for counts in posterior.counts]
    return np.concatenate(
        [*rows, model.emission.maximise(posterior.split[2], posterior.frames, posterior.mass)]
    )


def restarts(model, rng, n_restarts=10, **settings):
    """The best `EMResult` of several runs from K-means, each seeded by `rng` and perturbed but for the first.

    Runs go through joblib's threads. Warnings are those of the best run alone.
    """
    starts = [model.initial_params(rng), *(perturbed(model, rng) for _ in range(n_restarts - 1))]
    runs = threads()(delayed(_climb)(model, start, **settings) for start in starts)
    best = min(runs, key=lambda run: run.objectives[-1])
    _warn(best)
    return best


def perturbed(model, rng):
    """A K-means start on a random half of the sequences, or of a single one's frames, all sequences kept."""
    n = len(model.sequences)
    if n == 1:
        length = len(model.sequences[0])
        first = rng.integers(0, length // 2 + 1)
        part = [model.sequences[0][first : first + length - length // 2]]
    else:
        part = [model.sequences[i] for i in rng.choice(n, -(-n // 2), replace=False)]
    return replace(model, sequences=part).initial_params(rng)


def _warn(result):
    if not result.converged:
        change = result.objectives[-2] - result.objectives[-1]
        message = (
            f"EM: objective still falling by {change:.3g} after {len(result.objectives)} iterations"
        )
        warnings.warn(
            f"{message}: raise max_iterations, or let fit() finish", UnconvergedEM, stacklevel=3
        )
    empty = np.flatnonzero(result.frames < EMPTY)
    if empty.size:
        message = f"EM: states {empty.tolist()} keep {result.frames[empty].round(2).tolist()} expected frames"
        remedy = f"the data support {len(result.frames) - empty.size} states, lower n_states"
        warnings.warn(f"{message}: {remedy}", EmptiedState, stacklevel=3)
