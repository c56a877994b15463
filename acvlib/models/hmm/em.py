"""Maximum a posteriori by expectation maximisation, from K-means starts, all sequences together.

The E-step is `HiddenStates`. The M-step is the emission's `maximise`: in closed form (means and
variances in turn: Meng and Rubin 1993), or by Newton's method; networks have none: `fit` climbs by
L-BFGS.
"""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import delayed

from ...checks import NotFinite, check_whole, generator, real_array, real_number
from ...parallel import threads
from ...trials import FAILURES, AllFailed, reasons
from .posterior import HiddenStates, hidden_states

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


def expectation_maximisation(
    model: Any,
    start: np.ndarray,
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = TOLERANCE,
) -> EMResult:
    """Climb from start (D,), params of a model that holds nothing.

    Warns UnconvergedEM where max_iterations were not enough, EmptiedState where a state keeps fewer
    than two expected frames.

    Raises
    ------
    TypeError : the emission has no closed-form M-step
    ValueError : something is held
    """
    result = _climb(model, start, max_iterations, tolerance)
    _warn(result)
    return result


def _climb(model, start, max_iterations=MAX_ITERATIONS, tolerance=TOLERANCE):
    _check(model)
    max_iterations = check_whole("max_iterations", max_iterations, 2)
    tolerance = real_number("tolerance", tolerance, least=0.0)
    params = real_array("start", start, 1)
    if len(params) != model.n_params:
        raise ValueError(f"start ({len(params)},) must be ({model.n_params},)")
    objectives = []
    for _ in range(max_iterations):
        hidden = hidden_states(model, params, np.ones(model.n_sites))
        objectives.append(hidden.value())
        if not np.isfinite(objectives[-1]):
            raise NotFinite(f"EM: the objective is {objectives[-1]}")
        if len(objectives) > 1 and -np.diff(objectives)[-1] <= tolerance * abs(objectives[-1]):
            break
        params = m_step(hidden)
    converged = len(objectives) < max_iterations
    return EMResult(hidden.params, np.array(objectives), hidden.mass.sum(axis=0), converged)


def has_m_step(model: Any) -> bool:
    """Whether EM fits the model's emission."""
    return getattr(getattr(model, "emission", None), "maximise", None) is not None


def _check(model):
    if isinstance(model, type) or not has_m_step(model):
        name = type(getattr(model, "emission", None)).__name__
        raise TypeError(f"{name} has no closed-form M-step: use fit(), by L-BFGS")
    if model.held is not None:
        raise ValueError("EM fits all parameters: pass the model itself, and hold() its result")


def m_step(hidden: HiddenStates) -> np.ndarray:
    """The params (D,) that maximise the expected complete-data log posterior."""
    model = hidden.model
    rows = model.emission.maximise(hidden.rows, hidden.expected)
    return model.packed(model.chain_prior.rows(hidden.counts), rows)


def restarts(
    model: Any, rng: np.random.Generator, n_restarts: int = 10, **settings: Any
) -> EMResult:
    """The best of several runs from K-means starts, all but the first on a random half of the data.

    Runs go through joblib's threads; warnings are those of the best, and `UnconvergedEM` of runs
    that failed. Raises AllFailed where all did.
    """
    _check(model)
    n_restarts = check_whole("n_restarts", n_restarts, 1)
    runs = _runs(model, starting_points(model, generator(rng), n_restarts), **settings)
    rejected = [(n, repr(run)) for n, run in enumerate(runs) if isinstance(run, FAILURES)]
    ended = [run for run in runs if isinstance(run, EMResult)]
    if not ended:
        raise AllFailed(f"EM fails from every start. {reasons(rejected)}")
    if rejected:
        warnings.warn(f"EM fails from starts {reasons(rejected)}", UnconvergedEM, stacklevel=2)
    best = min(ended, key=lambda run: run.objectives[-1])
    _warn(best)
    return best


def _runs(model, starts, **settings):
    """What EM finds from each start, or the error that it meets."""

    def run(start):
        try:
            return _climb(model, start, **settings)
        except FAILURES as error:
            return error

    return threads()(delayed(run)(start) for start in starts)


def climbed(model: Any, rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Where n runs of EM end; the starting point of one that fails, or that EM does not fit."""
    starts = starting_points(model, rng, n)
    if model.held is not None or not has_m_step(model):
        return starts
    runs = zip(starts, _runs(model, starts), strict=True)
    return [start if isinstance(run, FAILURES) else run.params for start, run in runs]


def starting_points(model: Any, rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """K-means starts, all but the first on a random half of the data."""
    return [model.initial_params(rng), *(perturbed(model, rng) for _ in range(n - 1))]


def perturbed(model: Any, rng: np.random.Generator) -> np.ndarray:
    """A K-means start on a random half of the sequences, or of a single one's frames.

    Of those that have a weight; left-out frames before the first and after the last of a single
    sequence do not count.
    """
    pieces = model.pieces()
    kept = [model.weighed_frames.observed[piece] for piece in pieces]
    numbers = np.flatnonzero([frames.any() for frames in kept])
    if len(numbers) > 1:
        numbers = rng.choice(numbers, -(-len(numbers) // 2), replace=False)
        parts = [slice(0, len(model.sequences[n])) for n in numbers]
    else:
        frames = np.flatnonzero(kept[numbers[0]])
        length = frames[-1] - frames[0] + 1 + model.context
        half = length // 2
        first = frames[0] + rng.integers(0, half + 1)
        parts = [slice(first, first + length - half)]
    pairs = list(zip(numbers, parts, strict=True))
    if model.sites == "sequences":
        weights = model.sample_weight[numbers]
    else:
        of_frames = [model.sample_weight[pieces[n]] for n in numbers]
        pairs_of = zip(of_frames, parts, strict=True)
        weights = np.concatenate([w[p.start : p.stop - model.context] for w, p in pairs_of])
    sequences = [model.sequences[n][part] for n, part in pairs]
    return replace(model, sequences=sequences, sample_weight=weights).initial_params(rng)


def _warn(result):
    if not result.converged:
        change = result.objectives[-2] - result.objectives[-1]
        warnings.warn(
            f"EM: objective still falling by {change:.3g} after {len(result.objectives)} iterations"
            ": raise max_iterations, or let fit() finish",
            UnconvergedEM,
            stacklevel=3,
        )
    empty = np.flatnonzero(result.frames < EMPTY)
    if empty.size:
        kept = result.frames[empty].round(2).tolist()
        warnings.warn(
            f"EM: states {empty.tolist()} keep {kept} expected frames: the data support "
            f"{len(result.frames) - empty.size} states, lower n_states",
            EmptiedState,
            stacklevel=3,
        )
