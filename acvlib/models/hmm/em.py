"""Maximum a posteriori by expectation maximisation, of all sequences together.

The E-step is `HiddenStates`. The M-step is the emission's `maximise`: in closed form (means and
variances in turn: Meng and Rubin 1993), or by Newton's method; networks have none: `fit` climbs by
L-BFGS.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from joblib import delayed

from ...checks import NotFinite, warn
from ...declared import NonNegative, Real, Whole, declared
from ...model import AModel
from ...parallel import threads
from ...trials import FAILURES
from .posterior import HiddenStates, hidden_states

Iterations = Annotated[int, Whole(2)]
Start = Annotated[np.ndarray, Real("n_params")]
MAX_ITERATIONS = 500
TOLERANCE = 1e-7  # of the objective, relative, between iterations
EMPTY = 2.0  # expected frames below which a state counts as emptied


class UnconvergedEM(UserWarning):
    """Expectation maximisation stopped before its objective did."""


class EmptiedState(UserWarning):
    """The data do not support all states: the prior alone fixes some."""


@dataclass(frozen=True)
class EMResult:
    """params (D,); objectives: F at each iteration; frames (K,): expected number in each state."""

    params: np.ndarray = field(repr=False)
    objectives: np.ndarray = field(repr=False)
    frames: np.ndarray = field(repr=False)
    converged: bool


@declared
def expectation_maximisation(
    model: AModel,
    start: Start,
    max_iterations: Iterations = MAX_ITERATIONS,
    tolerance: NonNegative = TOLERANCE,
) -> EMResult:
    """Climb from start (D,), params of a model that holds nothing.

    Warns UnconvergedEM where max_iterations were not enough, EmptiedState where a state keeps fewer
    than two expected frames.

    Raises
    ------
    TypeError : the emission has no closed-form M-step
    ValueError : something is held
    """
    emission = getattr(model, "emission", None)
    if getattr(emission, "maximise", None) is None:
        name = type(emission).__name__
        raise TypeError(f"{name} has no closed-form M-step: use fit(), by L-BFGS")
    if model.held is not None:
        raise ValueError("EM fits all parameters: pass the model itself, and hold() its result")
    result = _climb(model, start, max_iterations, tolerance)
    _warn(result)
    return result


def climbed(model: Any, starts: list[np.ndarray]) -> list[np.ndarray]:
    """Where EM ends from each start; the start itself where it fails, or fits no such model."""
    if not model.restarts_climbed:
        return starts

    def end(start: np.ndarray):
        try:
            return _climb(model, start).params
        except FAILURES:
            return start

    return threads()(delayed(end)(start) for start in starts)


def _climb(model, params, max_iterations=MAX_ITERATIONS, tolerance=TOLERANCE):
    weights = np.ones(model.n_sites)
    objectives = []
    for _ in range(max_iterations):
        hidden = hidden_states(model, params, weights)
        objectives.append(hidden.value())
        if not np.isfinite(objectives[-1]):
            raise NotFinite(f"EM: the objective is {objectives[-1]}")
        if len(objectives) > 1 and -np.diff(objectives[-2:])[0] <= tolerance * abs(objectives[-1]):
            break
        params = m_step(hidden)
    converged = len(objectives) < max_iterations
    return EMResult(hidden.params, np.array(objectives), hidden.mass.sum(axis=0), converged)


def m_step(hidden: HiddenStates) -> np.ndarray:
    """The params (D,) that maximise the expected complete-data log posterior."""
    model = hidden.model
    rows = model.emission.maximise(hidden.rows, hidden.expected)
    return model.packed(model.chain_prior.rows(hidden.counts), rows)


def _warn(result):
    if not result.converged:
        change = result.objectives[-2] - result.objectives[-1]
        length = f"after {len(result.objectives)} iterations"
        message = f"EM: objective still falling by {change:.3g} {length}: raise max_iterations"
        warn(f"{message}, or let fit() finish", UnconvergedEM)
    empty = np.flatnonzero(result.frames < EMPTY)
    if empty.size:
        kept = f"EM: states {empty.tolist()} keep {result.frames[empty].round(2).tolist()}"
        left = f"the data support {len(result.frames) - empty.size} states"
        warn(f"{kept} expected frames: {left}, lower n_states", EmptiedState)
