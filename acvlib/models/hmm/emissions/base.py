"""What an HMM asks of an emission, and what it has where a class does not say otherwise."""

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import autograd.numpy as anp
import numpy as np
from autograd import grad, jacobian
from autograd.differential_operators import make_jvp
from autograd.tracer import isbox

from ....checks import one_line
from ..frames import Frames
from ..parameters import Simplex

STEP = 1e-30  # along the imaginary axis
NEGLIGIBLE = 1e-20  # an expected count that no sum of scores would show
MAX_STEPS = 10  # of Newton's method in one M-step
SMALLEST = 1e-6  # share of a step that is still tried
ENOUGH = 1e-9  # gain of a step, relative to the loss, after which the next is not worth its time


Factors = list[tuple[np.ndarray, np.ndarray]]  # signal (n, o) and inputs (n, i) of outer products


class Emission:
    """p(x_t | z_t = k): a frozen dataclass; each state has a row (e,) of parameters.

    Rows have the `n_shared` parameters of all states first, then d of each, e = n_shared + d. A
    subclass has `state_size`, `unpack`, `pack`, `minus_log_prior` and `log_density`, of which
    autograd must follow the last two, and the slopes of the prior take complex rows; all else has a
    default, derivatives by autograd among them, which ones in closed form beat 10 times. Missing
    frames have x = 0.

    n_groups: a state's own parameters are so many groups with the same information; order: how
    many frames before are looked back at; n_inputs: how many of the last columns of a
    sequence are inputs u_t, which nothing predicts; misses_channels: whether a frame may miss some
    of its channels; has_zeros: whether what a state never shows has density 0; priors: of each
    setting that is one, its defaults and, last, the flat law.
    """

    __repr__ = one_line
    order: int = 0
    n_shared: int = 0
    n_inputs: int = 0
    n_groups: int = 1
    misses_channels = False
    has_zeros = False
    priors: ClassVar[dict[str, tuple]] = {}

    def without_defaults(self: Any) -> dict[str, tuple]:
        """{name: (law, flat, the emission with that)} of `priors` that are what nobody chose."""
        return {
            name: (getattr(self, name), flat, replace(self, **{name: flat}))
            for name, (*defaults, flat) in self.priors.items()
            if getattr(self, name) in defaults
        }

    def of_columns(self, columns: list | None, n_channels: int) -> "Emission":
        """The emission that knows the names of columns; None: they have none."""
        return self

    @property
    def parts(self) -> list[tuple[Any, "Emission"]]:
        """(columns, emission) of groups of channels that are independent given the state."""
        return [(slice(None), self)]

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray) -> "Emission":
        """The emission with what it takes from all frames (T, R), inputs (T, q), weights (T,)."""
        return self

    def prepared(self, x: np.ndarray) -> np.ndarray:
        """x (T, R) as densities take it. Raises ValueError for what is outside their support."""
        return x

    def prepared_inputs(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs (T, q) as densities take them."""
        return inputs

    def state_size(self, n_channels: int) -> int:
        """d."""
        raise NotImplementedError

    def kept(self, n_states: int, n_channels: int) -> np.ndarray:
        """(K, d) which entries of rows are parameters; the others are 0."""
        return np.ones((n_states, self.state_size(n_channels)), bool)

    def unpack(self, rows: np.ndarray, n_channels: int) -> Any:
        """Named parameters, from rows (K, e)."""
        raise NotImplementedError

    def pack(self, named: Any) -> np.ndarray:
        """Rows (K, e) of named parameters: the inverse of `unpack`."""
        raise NotImplementedError

    def minus_log_prior(self, rows: Any) -> tuple[Any, Any]:
        """(value (...), slopes (..., K, e)) of rows (..., K, e), up to a constant."""
        raise NotImplementedError

    def log_density(self, row: Any, frames: Frames) -> Any:
        """log p(x_t | z_t = k) (n,) of a state's row (e,)."""
        raise NotImplementedError

    def log_densities(self, rows: Any, frames: Frames) -> Any:
        """log p(x_t | z_t = k) (n, K) of rows (K, e); differentiable."""
        columns = [self.log_density(row, frames) for row in rows]
        return numpy_of(rows).stack(columns, axis=1)

    def scores(self, rows: np.ndarray, k: int, frames: Frames) -> np.ndarray:
        """d log p(x_t | z_t = k), (n, e)."""
        return np.hstack([outer_rows(*pair) for pair in self.score_factors(rows, k, frames)])

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames) -> Factors:
        """Pairs of signal (n, o) and inputs (n, i), whose outer products in a row are `scores`."""
        along = make_jvp(lambda row: self.log_density(row, frames))(rows[k])
        return alone(np.stack([along(unit)[1] for unit in np.eye(rows.shape[1])], axis=1))

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray) -> Any:
        """What `slopes`, `information` and `maximise` need of the data, at the same rows.

        mass (M, K): expected counts of frames in states, 0 where missing; it may be negative.
        """
        return likely(frames, mass)

    def slopes(self, rows: np.ndarray, expected: Any) -> np.ndarray:
        """d sum_tk mass_tk log p(x_t | k), (K, e)."""
        sums = [
            summed(self.score_factors(rows, k, frames), mass[:, None])
            for k, (frames, mass) in enumerate(expected)
        ]
        return np.vstack(sums)

    def likelihood(self, rows: np.ndarray, expected: Any) -> np.ndarray:
        """sum_t mass_tk log p(x_t | k), (K,)."""
        parts = zip(rows[:, None], expected, strict=True)
        return np.array([m @ self.log_densities(row, part)[:, 0] for row, (part, m) in parts])

    def information(self, rows: np.ndarray, expected: Any) -> tuple[np.ndarray, np.ndarray]:
        """Minus the second derivatives of that, (K, s, e) and (K, q, q).

        Those of the s shared parameters with all, and of the first of a state's groups of its own.
        """

        def total(row: Any, frames: Any, mass: Any):
            return anp.dot(mass, self.log_density(row, frames))

        curvature = jacobian(grad(total))
        pairs = zip(rows, expected, strict=True)
        matrices = -np.stack([curvature(row, *part) for row, part in pairs])
        return matrices[:, : self.n_shared], matrices[:, self.n_shared :, self.n_shared :]

    def by_complex_step(self, rows: np.ndarray, expected: Any) -> tuple[np.ndarray, np.ndarray]:
        """`information` where `slopes`, in closed form, take complex rows."""
        return self.stepped(rows, lambda moved: -self.slopes(moved, expected))

    def prior_information(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of minus the log prior."""
        return self.stepped(rows, lambda moved: self.minus_log_prior(moved)[1])

    def stepped(self, rows: np.ndarray, slopes: Any) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of slopes(rows), each of its own row, in the form of `information`."""
        first = self.n_shared
        stop = first + (rows.shape[1] - first) // self.n_groups
        units = np.eye(stop, rows.shape[1])
        moved = [slopes(rows + 1j * STEP * unit).imag / STEP for unit in units]
        matrices = np.stack(moved, axis=1)
        return matrices[:, :first], matrices[:, first:, first:stop]

    @cached_property
    def _laws(self) -> dict[int, Simplex]:
        return {}

    def _law(self, n_states: int, n_entries: int, *settings: Any):
        """The `Simplex` of the log weights in the rows of all states, made once."""
        if n_states not in self._laws:
            self._laws[n_states] = Simplex((n_states, n_entries), *settings)
        return self._laws[n_states]

    def extreme(self, rows: np.ndarray, frames: Frames) -> np.ndarray:
        """Whether rows (..., K, e) may be at infinity, (...): such refits are looked at."""
        return np.zeros(rows.shape[:-2], bool)

    def check_optimum(self, rows: np.ndarray, expected: Any) -> None:
        """Raise `NoFiniteOptimum` where parameters run to infinity."""

    def features(self, frames: Frames) -> np.ndarray:
        """What K-means parts for a start, (M, F)."""
        return frames.x

    def start(self, frames: Frames, labels: np.ndarray, n_states: int) -> np.ndarray:
        """Rows (K, e) fitted to frames whose states (M,) are given."""
        mass = np.eye(n_states)[labels] * frames.observed[:, None]
        rows = np.zeros((n_states, self.n_shared + self.state_size(frames.n_channels)))
        for _ in range(3):
            rows = self.maximise(rows, self.expected(rows, frames, mass))
        return rows

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # of steps that go too far
    def maximise(self, rows: np.ndarray, expected: Any) -> np.ndarray:
        """The M-step: rows with a higher expected log posterior, by Newton's method.

        Steps of each state are by absolute curvature, halved until its loss falls. Where parameters
        are shared, a subclass has its own.
        """
        if self.n_shared:
            raise NotImplementedError(f"{type(self).__name__} shares parameters: needs an M-step")

        def losses(rows: np.ndarray):
            return self.minus_log_prior(rows[:, None])[0] - self.likelihood(rows, expected)

        values = losses(rows)
        climbs = np.ones(len(rows), bool)
        for _ in range(MAX_STEPS):
            gradient = self.minus_log_prior(rows)[1] - self.slopes(rows, expected)
            matrices = self.information(rows, expected)[1] + self.prior_information(rows)[1]
            curvatures, axes = np.linalg.eigh(matrices)
            sizes = np.maximum(abs(curvatures), np.finfo(float).tiny)
            moves = np.einsum("kij,klj,kl->ki", axes / sizes[:, None], axes, gradient)
            shares = 1.0 * climbs
            while True:
                tried = rows - shares[:, None] * moves
                gains = values - losses(tried)
                worse = ~(gains >= 0.0) & (shares > SMALLEST)
                if not worse.any():
                    break
                shares[worse] /= 2.0
            climbs &= gains > 0.0
            rows = np.where(climbs[:, None], tried, rows)
            values = np.where(climbs, values - gains, values)
            climbs &= gains > ENOUGH * abs(values)
            if not climbs.any():
                break
        return rows


def check_simple(name: str, emission: Any) -> None:
    """Raise TypeError unless it is an emission of single frames that each state has its own of."""
    is_simple = isinstance(emission, Emission) and emission.order == emission.n_inputs == 0
    if not is_simple or getattr(emission, "tied", False) or hasattr(emission, "groups"):
        raise TypeError(
            f"{name} {emission!r:.60}: an emission without order, inputs and shared parameters, "
            "such as Gaussian() or Poisson(), and not of Channels"
        )


def numpy_of(x: Any) -> Any:
    """autograd's numpy for what it traces, and numpy itself, which is faster, for all else."""
    return anp if isbox(x) else np


def normal(x: Any, mean: Any, precision: Any) -> tuple[Any, Any]:
    """(minus the log density (...), slopes (..., d)) of x (..., d), each N(mean, 1 / precision)."""
    slopes = precision * (x - mean)
    return 0.5 * numpy_of(x).sum(slopes * (x - mean), axis=-1), slopes


def in_rows(array: np.ndarray) -> np.ndarray:
    """The array (n, ...) as a table (n, m), for n = 0 too: a state may have no frame."""
    return array.reshape(len(array), np.prod(array.shape[1:], dtype=int))


def outer_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The outer product of each row of a (n, o) and of b (n, i), as a row (o i,)."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), a.shape[1] * b.shape[1])


def alone(scores: np.ndarray) -> Factors:
    """Scores (n, e) as the factors of themselves."""
    return [(scores, np.ones((len(scores), 1)))]


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


def likely(frames: Frames, mass: np.ndarray) -> list[tuple[Frames, np.ndarray]]:
    """For each column of mass (M, K): (the frames that count, their mass)."""
    parts = []
    for counts in mass.T:
        used = np.flatnonzero(abs(counts) > NEGLIGIBLE)
        if 2 * len(used) > len(counts):  # too few are left out to pay for it
            parts.append((frames, counts))
        else:
            parts.append((frames.rows(used), counts[used]))
    return parts
