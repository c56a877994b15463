"""Starts of an HMM, clusters of its frames, the order of its states, and EM from there.

The E-step is `HiddenStates`. The M-step is the emission's `maximise`: in closed form (means and
variances in turn: Meng and Rubin 1993), or by Newton's method; networks have none: `fit` climbs by
L-BFGS.
"""

from dataclasses import dataclass, field
from itertools import permutations
from typing import Annotated, Any

import numpy as np
from joblib import delayed
from scipy.cluster.vq import ClusterError, kmeans2, vq
from scipy.special import xlogy

from ...checks import NotFinite, warn
from ...declared import NonNegative, Real, Whole, declared
from ...model import AModel
from ...parallel import threads
from ...trials import FAILURES
from .frames import Frames
from .parameters import Simplex
from .posterior import hidden_states

Iterations = Annotated[int, Whole(2)]
Start = Annotated[np.ndarray, Real("n_params")]
MAX_ITERATIONS = 500
TOLERANCE = 1e-7  # of the objective, relative, between iterations
EMPTY = 2.0  # expected frames below which a state counts as emptied
N_CLUSTERINGS = 4  # of which K-means keeps the best
N_STEPS = 20  # of a clustering
ALL_ORDERS = 6  # states up to which every order is tried
SMALL = 1e-300  # the spread of what is the same in all states
FORBIDDEN = 1e-9  # in place of a probability of 0, so that fewer moves of it are better


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
        gain = objectives[-2] - objectives[-1] if len(objectives) > 1 else np.inf
        if gain <= tolerance * abs(objectives[-1]):
            break
        rows = model.emission.maximise(hidden.rows, hidden.expected)
        params = model.packed(model.chain_prior.rows(hidden.counts), rows)
    converged = len(objectives) < max_iterations
    return EMResult(hidden.params, np.array(objectives), hidden.mass.sum(axis=0), converged)


# starts


def k_means(x: np.ndarray, k: int, rng: np.random.Generator, lower: str = "n_states") -> np.ndarray:
    """Labels (M,) of the rows of x in k clusters: the best of several by sum of squares.

    Raises ValueError if the rows have no k clusters.
    """
    if len(np.unique(x, axis=0)) < k:
        raise ValueError(f"the observed frames have fewer than {k} distinct values: lower {lower}")
    runs = []
    for start in range(N_CLUSTERINGS):
        try:
            centres, labels = kmeans2(x, k, N_STEPS, minit="++", missing="raise", seed=rng)
        except ClusterError:
            continue
        if len(np.unique(labels)) == k:
            runs.append((((x - centres[labels]) ** 2).sum(), start, labels))
    if not runs:
        raise ValueError(f"the observed frames do not fall into {k} clusters: lower {lower}")
    return min(runs, key=lambda run: run[:2])[2]


def nearest(x: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Labels (M,) of the rows of x: the nearest of k drawn from its distinct rows.

    Rare rows are drawn as often as others: a row twice changes no start, nor does a weight of 2.
    """
    distinct = np.unique(x, axis=0)
    centres = distinct[rng.choice(len(distinct), k, replace=False)]
    return vq(x, centres)[0]


def in_order(labels: np.ndarray, frames: Frames, law: Simplex) -> np.ndarray:
    """The labels (M,) renamed, so that their path is as likely as can be under a chain's law.

    All orders are tried up to `ALL_ORDERS` states; beyond, an assignment has few forbidden moves.
    With known states, as many frames as can be are in theirs, whatever the law says of others.
    """
    k = law.shape[1]
    observed, starts = frames.observed, frames.starts
    if frames.states is not None:
        known = observed & (frames.states >= 0)
        agreeing = np.zeros((k, k))
        np.add.at(agreeing, (frames.states[known], labels[known]), 1.0)
        return np.argsort(best_order(-agreeing, None))[labels]
    if law.fixed is None:
        return labels
    counts = np.zeros((k + 1, k))
    first = starts[:-1][observed[starts[:-1]]]
    np.add.at(counts, (0, labels[first]), 1.0)
    moves = observed[1:] & observed[:-1]
    moves[starts[1:-1] - 1] = False
    now = np.flatnonzero(moves)
    np.add.at(counts, (1 + labels[now], labels[now + 1]), 1.0)
    if k <= ALL_ORDERS:
        orders = np.array(list(permutations(range(k))))
        order = orders[_log_likelihoods(counts, orders, law).argmax()]
    else:
        order = _assigned(counts, law)
    return np.argsort(order)[labels]


def _log_likelihoods(counts, orders, law):
    """Of a path's counts (K + 1, K), state k being label order[k], at the likeliest rows: (n,)."""
    first = counts[0][orders][:, None]
    moves = counts[1:][orders[:, :, None], orders[:, None, :]]
    every = np.concatenate([first, moves], axis=1)
    free = every * law.free
    total = free.sum(axis=2)
    likely = xlogy(free, free).sum(axis=2) - xlogy(total, total) + total * np.log(law.left[:, 0])
    known = np.log(np.fmax(law.fixed, FORBIDDEN)) * ~law.free
    return (likely + (every * known).sum(axis=2)).sum(axis=1)


def _assigned(counts, law):
    """An order of few forbidden moves, the start of a sequence being one state more."""
    from scipy.optimize import quadratic_assignment  # slow to import

    k = law.shape[1]
    forbidden, moves = np.zeros((2, k + 1, k + 1))
    forbidden[:k, :k], forbidden[k, :k] = law.fixed[1:] == 0.0, law.fixed[0] == 0.0
    moves[:k, :k], moves[k, :k] = counts[1:], counts[0]
    found = quadratic_assignment(forbidden, moves, options={"partial_match": [[k, k]]})
    return found.col_ind[:k]


def renumbered(chain: np.ndarray, order: Any) -> np.ndarray:
    """Rows of initial and transition probabilities (K + 1, K), the states in another order."""
    return np.vstack([chain[:1], chain[1:][order]])[:, order]


def best_order(costs: np.ndarray, fixed: np.ndarray | None) -> Any:
    """Which state (K,) each is to be, by costs (K, K), among orders that leave `fixed` as it is.

    All are tried of few states; of more the best of any order, if it does, else their own.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    k = len(costs)
    best = linear_sum_assignment(costs)[1]
    if fixed is None or np.array_equal(renumbered(fixed, best), fixed, equal_nan=True):
        return best
    orders = map(list, permutations(range(k)) if k <= ALL_ORDERS else [range(k)])
    same = [o for o in orders if np.array_equal(renumbered(fixed, o), fixed, equal_nan=True)]
    return min(same, key=lambda order: costs[np.arange(k), order].sum())


def clustered(model: Any, rng: Any, cluster: Any) -> np.ndarray:
    """Params (D,) of frames that weigh, in clusters, but for those whose states are known."""
    frames = model.weighed_frames
    labels = np.zeros(len(frames.observed), int)
    features = model.emission.features(frames)[frames.observed]
    labels[frames.observed] = cluster(features, model.n_states, rng)
    labels = in_order(labels, frames, model.chain_prior)
    if frames.states is not None:
        labels = np.where(frames.states >= 0, frames.states, labels)
    return model.params_of_labels(labels)


def with_numbers_of(model: Any, params: np.ndarray, others: np.ndarray) -> np.ndarray:
    """`HMM.matched`, where states may be numbered otherwise."""
    chain, rows = model.split(params)
    _, theirs = model.split(others)
    spread = np.var(np.vstack([rows, theirs]), axis=0) + SMALL
    costs = ((theirs[:, None] - rows) ** 2 / spread).sum(axis=2)
    order = best_order(costs, model.fixed)
    p = renumbered(np.exp(model.chain_prior.log_p(chain)), order)
    return model.packed(p, rows[order])
