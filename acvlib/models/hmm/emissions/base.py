"""What an HMM asks of an emission, and what it has where a class does not say otherwise."""

from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd import grad, jacobian
from autograd.differential_operators import make_jvp
from scipy.cluster.vq import ClusterError, kmeans2

from ....checks import one_line
from ..sequences import Frames
from .priors import Prior

N_CLUSTERINGS = 4  # of which K-means keeps the best
NEGLIGIBLE = 1e-25  # an expected count that no sum of scores would show
MAX_STEPS = 10  # of Newton's method in one M-step
SMALLEST = 1e-6  # share of a step that is still tried
ENOUGH = 1e-9  # gain of a step, relative to the loss, after which the next is not worth its time


class StatePairs(NamedTuple):
    """The n pairs of a state: their numbers among all pairs, frames, and how often expected."""

    state: int
    numbers: np.ndarray
    frames: Frames
    mass: np.ndarray


class Emission:
    """p(x_t | z_t = k): a frozen dataclass; each state has a row (e,) of parameters.

    The parameters (E,) of all states are `n_shared` ones of all, then d of each; rows have the
    shared ones first, e = n_shared + d. A subclass has `state_shape`, `unpack`, `pack`, `prior` and
    `log_density`, which must be differentiable by autograd; all else has a default, derivatives by
    autograd among them, which ones in closed form beat 10 times. Missing frames have x = 0.

    order: how many frames before are looked back at; n_inputs: how many of the last columns of a
    sequence are inputs u_t, which nothing predicts; misses_channels: whether a frame may miss some
    of its channels.
    """

    __repr__ = one_line
    order: int = 0
    n_shared: int = 0
    n_inputs: int = 0
    misses_channels = False

    def settled(self, sequences: Any) -> "Emission":
        """The emission with what it takes from the model's x, a list of (T, R), once."""
        return self

    def prepared(self, x: np.ndarray) -> np.ndarray:
        """x (M, R) as densities take it. Raises ValueError for what is outside their support."""
        return x

    def state_shape(self, n_channels: int) -> tuple[int, int]:
        """(r, q), d = r q: a state's own parameters are r groups of q with the same information."""
        raise NotImplementedError

    def unpack(self, states: Any, n_channels: int) -> NamedTuple:
        """Named parameters, from rows (K, e)."""
        raise NotImplementedError

    def pack(self, named: Any) -> np.ndarray:
        """The params (E,) of named ones: the inverse of `unpack`."""
        raise NotImplementedError

    def prior(self, n_states: int, n_channels: int) -> Prior:
        """The prior of all params (E,)."""
        raise NotImplementedError

    def log_density(self, state: Any, frames: Frames) -> Any:
        """log p(x_t | z_t = k) (n,) of a state's row (e,); differentiable."""
        raise NotImplementedError

    def scores(self, state: np.ndarray, frames: Frames) -> np.ndarray:
        """d log p, (n, e)."""
        along = make_jvp(lambda row: self.log_density(row, frames))(state)
        return np.stack([along(unit)[1] for unit in np.eye(len(state))], axis=1)

    def gradient(self, state: np.ndarray, frames: Frames, mass: np.ndarray) -> np.ndarray:
        """d sum_t mass_t log p, (e,)."""
        return mass @ self.scores(state, frames)

    def information(self, state: np.ndarray, frames: Frames, mass: np.ndarray) -> np.ndarray:
        """Minus the second derivatives of sum_t mass_t log p, (e, e)."""
        return -jacobian(grad(lambda row: mass @ self.log_density(row, frames)))(state)

    def definite_information(
        self, state: np.ndarray, frames: Frames, mass: np.ndarray
    ) -> np.ndarray:
        """A semi-definite approximation of it, a preconditioner: sum_t mass_t score score'."""
        scores = self.scores(state, frames)
        return (mass[:, None] * scores).T @ scores

    def mean(self, state: np.ndarray, frames: Frames) -> np.ndarray:
        """E[x_t | z_t = k, lags, inputs] in the units of the data, (n, R), or (1, R) for all."""
        raise NotImplementedError

    def draw(self, state: np.ndarray, frames: Frames, rng: np.random.Generator) -> np.ndarray:
        """x_t drawn given z_t = k, lags and inputs, in the units of the data, (n, R)."""
        raise NotImplementedError

    def features(self, frames: Frames) -> np.ndarray:
        """What K-means parts for a start, (M, F)."""
        return frames.x

    def start(self, frames: Frames, labels: np.ndarray, n_states: int) -> np.ndarray:
        """Params (E,) fitted to frames whose states (M,) are given."""
        mass = np.eye(n_states)[labels] * frames.observed[:, None]
        states = np.zeros((n_states, self.n_shared + np.prod(self.state_shape(frames.n_channels))))
        for _ in range(3):
            params = self.maximise(states, frames, mass)
            own = params[self.n_shared :].reshape(n_states, -1)
            states[:, : self.n_shared] = params[: self.n_shared]
            states[:, self.n_shared :] = own
        return params

    def maximise(self, states: np.ndarray, frames: Frames, mass: np.ndarray) -> np.ndarray:
        """The M-step: params (E,) with a higher expected log posterior, mass (M, K) the posterior.

        State by state, by Newton's method: where parameters are shared, a subclass has its own.
        """
        if self.n_shared:
            raise NotImplementedError(f"{type(self).__name__} shares parameters: needs an M-step")
        prior = self.prior(1, frames.n_channels)
        moved = []
        for row, own in zip(states, mass.T, strict=True):
            rows = np.flatnonzero(own)
            moved.append(_climbed(self, row, frames.rows(rows), own[rows], prior))
        return np.concatenate(moved)

    def log_densities(self, states: Any, frames: Frames) -> Any:
        """log p(x_t | z_t = k, lags) of rows (K, e), (M, K), 0 where missing; differentiable."""
        columns = [self.log_density(state, frames) for state in states]
        return anp.stack(columns, axis=1) * frames.observed[:, None]

    def gradients(self, states: np.ndarray, frames: Frames, mass: np.ndarray) -> np.ndarray:
        """d sum_tk mass_tk log p(x_t | k), (K, e); mass (M, K), 0 at missing frames."""
        found = []
        for state, own in zip(states, mass.T, strict=True):
            rows = np.flatnonzero(own > NEGLIGIBLE)
            if 2 * len(rows) > len(own):  # few to leave out: no copy
                found.append(self.gradient(state, frames, own))
            else:
                found.append(self.gradient(state, frames.rows(rows), own[rows]))
        return np.stack(found)

    def informations(self, states: np.ndarray, pairs: list[StatePairs]) -> "Information":
        """Minus the second derivatives of sum_p mass_p log p over pairs (frame, state)."""
        return Information(self, states, pairs)


class Information:
    """Minus the second derivatives of sum_p mass_p log p, a matrix (e, e) for each state."""

    def __init__(self, emission, states, pairs):
        self.emission = emission
        self.states = states
        self.pairs = pairs
        self.matrices = {}
        for k, _, frames, mass in pairs:
            self.matrices[k] = emission.information(states[k], frames, mass)

    def multiply(self, states):
        """Times B directions (B, K, e), of the same shape."""
        out = np.zeros_like(states)
        for k, matrix in self.matrices.items():
            out[:, k] = states[:, k] @ matrix
        return out

    def blocks(self):
        """Semi-definite approximations (n_shared, n_shared) and (K, q, q), a preconditioner."""
        n_states, size = self.states.shape
        found = np.zeros((n_states, size, size))
        for k, _, frames, mass in self.pairs:
            found[k] = self.emission.definite_information(self.states[k], frames, mass)
        n_shared = self.emission.n_shared
        return found[:, :n_shared, :n_shared].sum(axis=0), found[:, n_shared:, n_shared:]


def _climbed(emission, row, frames, mass, prior):
    """Newton's steps from a row, by absolute curvature, each halved until the loss falls."""

    def loss(row):
        return prior.minus_log(row) - mass @ emission.log_density(row, frames)

    value = loss(row)
    for _ in range(MAX_STEPS):
        gradient = prior.gradient(row) - emission.gradient(row, frames, mass)
        information = emission.information(row, frames, mass) + prior.hessian(row).toarray()
        curvatures, axes = np.linalg.eigh(information)
        move = axes @ ((axes.T @ gradient) / np.maximum(abs(curvatures), np.finfo(float).tiny))
        share = 1.0
        while not loss(row - share * move) <= value and share > SMALLEST:
            share /= 2.0
        gain = value - loss(row - share * move)
        if not gain > 0.0:
            break
        row = row - share * move
        value -= gain
        if gain <= ENOUGH * abs(value):
            break
    return row


def k_means(x: np.ndarray, k: int, seed: int, lower: str = "n_states") -> np.ndarray:
    """Labels (M,) of the rows of x in k clusters: the best of several by sum of squares.

    Raises ValueError if the rows have no k clusters.
    """
    if len(np.unique(x, axis=0)) < k:
        raise ValueError(f"the observed frames have fewer than {k} distinct values: lower {lower}")
    found = []
    for start in range(N_CLUSTERINGS):
        rng = np.random.default_rng([seed, start])
        try:
            centres, labels = kmeans2(x, k, 50, minit="++", missing="raise", seed=rng)
        except ClusterError:
            continue
        if len(np.unique(labels)) == k:
            found.append((((x - centres[labels]) ** 2).sum(), start, labels))
    if not found:
        raise ValueError(f"the observed frames do not fall into {k} clusters: lower {lower}")
    return min(found, key=lambda one: one[:2])[2]
