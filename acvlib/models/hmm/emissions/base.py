"""What an HMM asks of an emission, and what it has where a class does not say otherwise."""

from collections.abc import Iterator
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import grad, jacobian
from autograd.differential_operators import make_jvp

from ....checks import one_line
from ..sequences import Frames

STEP = 1e-30  # of complex steps, whose square is lost to rounding
NEGLIGIBLE = 1e-20  # an expected count that no sum of scores would show
MAX_STEPS = 10  # of Newton's method in one M-step
SMALLEST = 1e-6  # share of a step that is still tried
ENOUGH = 1e-9  # gain of a step, relative to the loss, after which the next is not worth its time


Factors = list[tuple[np.ndarray, np.ndarray]]  # signal (n, o) and inputs (n, i) of outer products


def in_rows(array: np.ndarray) -> np.ndarray:
    """The array (n, ...) as a table (n, m), for n = 0 too: a state may have no frame."""
    return array.reshape(len(array), np.prod(array.shape[1:], dtype=int))


def outer_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The outer product of each row of a (n, o) and of b (n, i), as a row (o i,)."""
    return in_rows(a[:, :, None] * b[:, None, :])


class Emission:
    """p(x_t | z_t = k): a frozen dataclass; each state has a row (e,) of parameters.

    Rows have the `n_shared` parameters of all states first, then d of each, e = n_shared + d. A
    subclass has `state_shape`, `unpack`, `pack`, `minus_log_prior` and `log_density`, which must be
    differentiable by autograd; all else has a default, derivatives by autograd among them, which
    ones in closed form (see `Analytic`) beat 10 times. Missing frames have x = 0.

    order: how many frames before are looked back at; n_inputs: how many of the last columns of a
    sequence are inputs u_t, which nothing predicts; misses_channels: whether a frame may miss some
    of its channels; has_zeros: whether what a state never shows has density 0.
    """

    __repr__ = one_line
    order: int = 0
    n_shared: int = 0
    n_inputs: int = 0
    misses_channels = False
    has_zeros = False

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray) -> "Emission":
        """The emission with what it takes from all frames (T, R), inputs (T, q), weights (T,)."""
        return self

    def prepared(self, x: np.ndarray) -> np.ndarray:
        """x (T, R) as densities take it. Raises ValueError for what is outside their support."""
        return x

    def prepared_inputs(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs (T, q) as densities take them."""
        return inputs

    def state_shape(self, n_channels: int) -> tuple[int, int]:
        """(r, q), d = r q: a state's parameters are r groups of q with the same information."""
        raise NotImplementedError

    def kept(self, n_states: int, n_channels: int) -> np.ndarray | None:
        """(K, d) which entries of rows are parameters; the others are 0. None: all."""
        return None

    def unpack(self, rows: Any, n_channels: int) -> Any:
        """Named parameters, from rows (K, e)."""
        raise NotImplementedError

    def pack(self, named: Any) -> np.ndarray:
        """Rows (K, e) of named parameters: the inverse of `unpack`."""
        raise NotImplementedError

    def minus_log_prior(self, rows: Any) -> tuple[Any, Any]:
        """(value (...), slopes (..., K, e)) of rows (..., K, e), real or complex: see `priors`."""
        raise NotImplementedError

    def log_density(self, row: Any, frames: Frames) -> Any:
        """log p(x_t | z_t = k) (n,) of a state's row (e,); differentiable."""
        raise NotImplementedError

    def log_densities(self, rows: Any, frames: Frames) -> Any:
        """log p(x_t | z_t = k) (n, K) of rows (K, e); differentiable."""
        return anp.stack([self.log_density(row, frames) for row in rows], axis=1)

    def scores(self, rows: np.ndarray, k: int, frames: Frames) -> np.ndarray:
        """d log p(x_t | z_t = k), (n, e)."""
        return np.hstack([outer_rows(*pair) for pair in self.score_factors(rows, k, frames)])

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames) -> Factors:
        """Pairs of signal (n, o) and inputs (n, i), whose outer products in a row are `scores`."""
        along = make_jvp(lambda row: self.log_density(row, frames))(rows[k])
        return alone(np.stack([along(unit)[1] for unit in np.eye(rows.shape[1])], axis=1))

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray) -> Any:
        """What `slopes`, `information` and `maximise` need of the data.

        mass (M, K): expected counts of frames in states, 0 where missing; it may be negative.
        """
        return [(frames.rows(used), counts) for used, counts in likely(mass)]

    def slopes(self, rows: Any, expected: Any) -> Any:
        """d sum_tk mass_tk log p(x_t | k), (K, e)."""
        return np.stack(
            [grad(self._sum)(row, *own) for row, own in zip(rows, expected, strict=True)]
        )

    def factored_slopes(self, rows: Any, expected: Any) -> Any:
        """`slopes` by `score_factors`, for emissions whose factors need no autograd."""
        sums = [
            summed(self.score_factors(rows, k, frames), mass[:, None])
            for k, (frames, mass) in enumerate(expected)
        ]
        return np.vstack(sums)

    def information(
        self, rows: np.ndarray, expected: Any, prior: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Minus the second derivatives, of the log prior too if `prior`: (K, s, e), (K, q, q).

        Those of the s shared parameters with all, and of the first of a state's groups of its own.
        """
        curvature = jacobian(grad(self._sum))
        found = -np.stack([curvature(row, *own) for row, own in zip(rows, expected, strict=True)])
        if prior:
            found += along_units(lambda rows: self.minus_log_prior(rows)[1], rows)
        return found[:, : self.n_shared], found[:, self.n_shared :, self.n_shared :]

    def _sum(self, row, frames, mass):
        return anp.dot(mass, self.log_density(row, frames))

    def mean(self, rows: np.ndarray, k: int, frames: Frames) -> np.ndarray:
        """E[x_t | z_t = k, lags, inputs] in the units of the data, (n, R), or (1, R) for all."""
        raise NotImplementedError

    def draw(
        self, rows: np.ndarray, k: int, frames: Frames, rng: np.random.Generator
    ) -> np.ndarray:
        """x_t drawn given z_t = k, lags and inputs, in the units of the data, (n, R)."""
        raise NotImplementedError

    def check_optimum(self, rows: np.ndarray, expected: Any) -> None:
        """Raise `NoFiniteOptimum` where parameters run to infinity."""

    def features(self, frames: Frames) -> np.ndarray:
        """What K-means parts for a start, (M, F)."""
        return frames.x

    def start(self, frames: Frames, labels: np.ndarray, n_states: int) -> np.ndarray:
        """Rows (K, e) fitted to frames whose states (M,) are given."""
        mass = np.eye(n_states)[labels] * frames.observed[:, None]
        rows = np.zeros((n_states, self.n_shared + np.prod(self.state_shape(frames.n_channels))))
        for _ in range(3):
            rows = self.maximise(rows, self.expected(rows, frames, mass))
        return rows

    def maximise(self, rows: np.ndarray, expected: Any) -> np.ndarray:
        """The M-step: rows with a higher expected log posterior, by Newton's method.

        Steps are by absolute curvature, each halved until the loss falls. Where parameters are
        shared, a subclass has its own.
        """
        if self.n_shared:
            raise NotImplementedError(f"{type(self).__name__} shares parameters: needs an M-step")
        return np.concatenate(
            [self._climbed(rows[k : k + 1], [own]) for k, own in enumerate(expected)]
        )

    def _climbed(self, row, expected):
        ((frames, mass),) = expected

        def loss(row):
            return self.minus_log_prior(row)[0] - mass @ self.log_densities(row, frames)[:, 0]

        value = loss(row)
        for _ in range(MAX_STEPS):
            gradient = (self.minus_log_prior(row)[1] - self.slopes(row, expected))[0]
            curvatures, axes = np.linalg.eigh(self.information(row, expected, True)[1][0])
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


class Analytic(Emission):
    """One whose `slopes` take complex rows: the second derivatives are their imaginary parts."""

    def information(self, rows, expected, prior):
        found = self.curvature(rows, expected, prior)
        return found[:, : self.n_shared], found[:, self.n_shared :, self.n_shared :]

    def curvature(self, rows: Any, expected: Any, prior: bool, n_units: int | None = None) -> Any:
        """Minus the second derivatives (K, n_units, e) along the first entries of rows."""

        def slopes(rows):
            of_prior = self.minus_log_prior(rows)[1] if prior else 0.0
            return of_prior - self.slopes(rows, expected)

        return along_units(slopes, rows, n_units)


def along_units(slopes: Any, rows: np.ndarray, n_units: int | None = None) -> np.ndarray:
    """The derivatives (K, n_units, e) of slopes (K, e) along the first entries of all rows."""
    units = np.eye(rows.shape[1])[:n_units]
    moved = [slopes(rows + 1j * STEP * unit).imag / STEP for unit in units]
    return np.stack(moved, axis=1) if moved else np.zeros((len(rows), 0, rows.shape[1]))


def alone(scores: np.ndarray) -> Factors:
    """Scores (n, e) as the factors of themselves."""
    return [(scores, np.ones((len(scores), 1)))]


def along(factors: Factors, directions: np.ndarray) -> np.ndarray:
    """Scores (n, e), the outer products of factors, times directions (B, e): (n, B)."""
    products = []
    start = 0
    for signal, inputs in factors:
        stop = start + signal.shape[1] * inputs.shape[1]
        part = directions[:, start:stop]
        if len(directions) < inputs.shape[1]:
            moved = inputs @ part.reshape(-1, inputs.shape[1]).T
            moved = moved.reshape(len(signal), len(part), signal.shape[1])
            products.append(np.einsum("nbo,no->nb", moved, signal))
        else:  # many directions: the outer products are formed for all
            products.append(outer_rows(signal, inputs) @ part.T)
        start = stop
    return sum(products)


def summed(factors: Factors, shares: np.ndarray) -> np.ndarray:
    """Scores (n, e) summed by shares (n, B): (B, e)."""
    sums = []
    for signal, inputs in factors:
        if shares.shape[1] < inputs.shape[1]:
            total = outer_rows(shares, signal).T @ inputs
        else:
            total = shares.T @ outer_rows(signal, inputs)
        sums.append(total.reshape(shares.shape[1], -1))
    return np.hstack(sums)


def likely(mass: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
    """For each column of mass (M, K): (frames that count, their mass)."""
    for counts in mass.T:
        used = np.flatnonzero(abs(counts) > NEGLIGIBLE)
        few_to_leave_out = 2 * len(used) > len(counts)
        yield (slice(None), counts) if few_to_leave_out else (used, counts[used])
