"""Counts, x_tr | z_t = k ~ Poisson(rate_kr), codes, x_t | z_t = k ~ Categorical(p_k), and either
given inputs: x_t | z_t = k, u_t ~ Bernoulli(1 / (1 + exp(-eta))) or Poisson(exp(eta)).

Source of the last: Ashwood et al. (2022), Mice alternate between discrete strategies, Nature
Neuroscience 25.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ....checks import in_named_columns
from ....declared import OneOf, Real, Whole, declared
from ..frames import Frames, check_codes, local_means
from ..parameters import Simplex
from .base import Emission, Pair, alone, in_rows, normal, numpy_of
from .units import Width

MOST = 10**5  # categories


class PoissonParams(NamedTuple):
    """rate (K, R)."""

    rate: np.ndarray


class CategoricalParams(NamedTuple):
    """probability (K, C), rows that sum to 1, in the order of `Categorical.symbols`."""

    probability: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class Poisson(Emission):
    """A row: log rates (R,), independent. Rates ~ Gamma(shape, rate) of `rate_prior`.

    (1, 0) is flat, shapes above 1 keep rates above 0.
    """

    rate_prior: Annotated[tuple[float, float], Pair(1.0, 0.0)] = (1.1, 0.01)
    priors = {"rate_prior": ((1.1, 0.01), (1.0, 0.0))}
    misses_channels = True

    def prepared(self, x: np.ndarray):
        check_codes(x)
        return x

    def state_size(self, n_channels: int):
        return n_channels

    def unpack(self, rows: np.ndarray, n_channels: int):
        return PoissonParams(numpy_of(rows).exp(rows))

    def pack(self, named: Any):
        return np.log(named.rate)

    def minus_log_prior(self, rows: Any):
        xp = numpy_of(rows)
        shape, rate = self.rate_prior
        terms = rate * xp.exp(rows)
        return xp.sum(terms - (shape - 1.0) * rows, axis=(-2, -1)), terms - (shape - 1.0)

    def log_densities(self, rows: Any, frames: Frames):
        xp = numpy_of(rows)
        known = gammaln(frames.x + 1.0).sum(axis=1, keepdims=True)
        linear = xp.dot(frames.x, xp.transpose(rows))
        return linear - xp.dot(frames.seen, xp.exp(xp.transpose(rows))) - known

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        return alone(frames.x - frames.seen * np.exp(rows[k]))

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray):
        """Sums of x, and how often a channel is seen, (K, R) both."""
        return mass.T @ frames.x, mass.T @ frames.seen

    def slopes(self, rows: np.ndarray, expected: Any):
        sums, seen = expected
        return sums - seen * np.exp(rows)

    information = Emission.by_complex_step

    def maximise(self, rows: np.ndarray, expected: Any):
        sums, seen = expected
        shape, rate = self.rate_prior
        return np.log((sums + shape - 1.0) / (seen + rate))

    def features(self, frames: Frames):
        """Square roots, whose variance does not depend on the rate, with those around a frame."""
        roots = np.sqrt(frames.x)
        return np.hstack([roots, local_means(roots, frames.starts)])


@declared
@dataclass(frozen=True, repr=False)
class Categorical(Emission):
    """A row: log weights (C,) of the symbols, see `Simplex`; p_k ~ Dirichlet.

    n_categories: C codes 0 ... C - 1, by default the codes that occur; symbols (C,): these codes,
    in their order; fixed: None, or (K, C) probabilities that stay as they are, 0 for what a state
    never shows, nan where free.
    """

    n_categories: Annotated[int, Whole(1, MOST)] | None = None
    emission_concentration: Annotated[float, Real("", least=1.0)] = 1.1
    fixed: Any = field(default=None, repr=False, compare=False)
    priors = {"emission_concentration": (1.1, 1.001)}
    symbols: tuple[float, ...] | None = field(default=None, repr=False)

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        if x.shape[1] != 1:
            raise ValueError(f"{x.shape[1]} channels of codes: categorical emissions have one")
        check_codes(x)
        n = self.n_categories
        names = self.symbols
        if names is None:
            names = tuple(np.unique(x[np.isfinite(x)]) if n is None else np.arange(float(n)))
        if [*names] != sorted({*names}) or n not in (None, len(names)):
            raise ValueError(f"symbols {[*names]}: must be {n or 'several'} codes, in rising order")
        fixed = in_named_columns(names, "fixed", self.fixed)
        return replace(self, n_categories=len(names), symbols=tuple(map(float, names)), fixed=fixed)

    def prepared(self, x: np.ndarray):
        """The number of each symbol."""
        check_codes(x)
        symbols = np.array(self.symbols)
        other = x[~np.isin(x, symbols) & np.isfinite(x)]
        if other.size:
            known = ", ".join(f"{symbol:g}" for symbol in symbols[:5])
            more = ", ..." if len(symbols) > 5 else ""
            raise ValueError(f"x holds {other[0]:g}: only {known}{more} are expected")
        return np.where(np.isfinite(x), np.searchsorted(symbols, x), np.nan)

    @property
    def has_zeros(self):
        return self.fixed is not None and bool((np.asarray(self.fixed) == 0.0).any())

    def law(self, n_states: int) -> Simplex:
        """Of all rows."""
        return self._law(n_states, self.n_categories, self.emission_concentration, self.fixed)

    def state_size(self, n_channels: int):
        return self.n_categories

    def kept(self, n_states: int, n_channels: int):
        return self.law(n_states).kept

    def unpack(self, rows: np.ndarray, n_channels: int):
        return CategoricalParams(numpy_of(rows).exp(self.law(len(rows)).log_p(rows)))

    def pack(self, named: Any):
        p = np.asarray(named.probability)
        return self.law(len(p)).weights(p, "probability")

    def minus_log_prior(self, rows: Any):
        law = self.law(rows.shape[-2])
        return law.minus_log_prior(law.log_p(rows))

    def log_densities(self, rows: Any, frames: Frames):
        return self.law(len(rows)).log_p(rows).T[_codes(frames)]

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        law = self.law(len(rows))
        seen = np.eye(self.n_categories)[_codes(frames)] * law.free[k]
        shares = law.shares(np.exp(law.log_p(rows)))[k]
        return alone(seen - seen.sum(axis=1, keepdims=True) * shares)

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray):
        """Counts of each code, (K, C)."""
        codes = _codes(frames)
        return np.array([np.bincount(codes, counts, self.n_categories) for counts in mass.T])

    def slopes(self, rows: np.ndarray, expected: Any):
        law = self.law(len(rows))
        return law.score(expected, np.exp(law.log_p(rows)))

    def information(self, rows: np.ndarray, expected: Any):
        law = self.law(len(rows))
        matrices = law.information(expected, np.exp(law.log_p(rows)))
        return matrices[:, :0], matrices

    def maximise(self, rows: np.ndarray, expected: Any):
        law = self.law(len(rows))
        return law.weights(law.rows(expected + law.pseudo_counts))

    def check_optimum(self, rows: np.ndarray, expected: Any):
        self.law(len(rows)).check_optimum(expected)

    def features(self, frames: Frames):
        """A frame's own category, with how often each occurs around it."""
        own = np.eye(self.n_categories)[_codes(frames)]
        return np.hstack([own, local_means(own, frames.starts)])


def _codes(frames):
    return frames.x[:, 0].astype(int)


class GLMParams(NamedTuple):
    """weights (K, R, q): those of the inputs, then the intercept, in the units of the data."""

    weights: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class GLM(Emission):
    """A row: W_k (R, q) by rows, of (inputs - centre) / scale, then of a 1; eta = W_k [u_t, 1].

    Weights ~ Normal(0, weight_sd^2), with which a state that inputs part stays finite.

    n_inputs: how many last columns of a sequence are inputs; centre, scale (n_inputs,): by default
    means and sds of the inputs where nothing is missing, so that no unit matters.
    """

    family: Annotated[str, OneOf("bernoulli", "poisson")] = "bernoulli"
    n_inputs: Annotated[int, Whole(0)] = 0
    weight_sd: Width = 10.0
    centre: tuple[float, ...] | None = field(default=None, repr=False)
    scale: tuple[float, ...] | None = field(default=None, repr=False)
    priors = {"weight_sd": (10.0, np.inf)}

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        if self.scale is not None:
            return self
        whole = np.isfinite(np.column_stack([x, inputs])).all(axis=1)
        centre = np.zeros(self.n_inputs)
        scale = np.ones(self.n_inputs)
        if self.n_inputs and weights[whole].sum() > 0.0:
            centre = np.average(inputs[whole], axis=0, weights=weights[whole])
            squares = np.average((inputs[whole] - centre) ** 2, axis=0, weights=weights[whole])
            scale = np.where(squares > 0.0, np.sqrt(squares), 1.0)
        return replace(self, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))

    def prepared(self, x: np.ndarray):
        check_codes(x, 2 if self.family == "bernoulli" else None)
        return x

    def prepared_inputs(self, inputs: np.ndarray):
        return (inputs - np.array(self.centre)) / np.array(self.scale)

    def state_size(self, n_channels: int):
        return n_channels * (self.n_inputs + 1)

    def unpack(self, rows: np.ndarray, n_channels: int):
        return GLMParams(
            numpy_of(rows).dot(rows.reshape((len(rows), n_channels, -1)), self._to_units())
        )

    def pack(self, named: Any):
        return in_rows(named.weights @ np.linalg.inv(self._to_units()))

    def _to_units(self):
        """The matrix (q, q) that takes weights of scaled inputs to those of inputs."""
        scale = np.array(self.scale)
        change = np.diag(np.append(1.0 / scale, 1.0))
        change[:-1, -1] = -np.array(self.centre) / scale
        return change

    def minus_log_prior(self, rows: Any):
        value, slopes = normal(rows, 0.0, self.weight_sd**-2)
        return value.sum(axis=-1), slopes

    def log_density(self, row: Any, frames: Frames):
        xp = numpy_of(row)
        eta = self._eta(row, frames)
        if self.family == "bernoulli":
            terms = frames.x * eta - xp.logaddexp(0.0, eta)
        else:
            terms = frames.x * eta - xp.exp(eta) - gammaln(frames.x + 1.0)
        return xp.sum(terms, axis=1)

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        return [(frames.x - self._mean(rows[k], frames), frames.design)]

    information = Emission.by_complex_step

    def features(self, frames: Frames):
        """Around a frame, the scores of one regression for all."""
        everyone = np.zeros(len(frames.x), int)
        pooled = self.start(frames, everyone, 1)
        return local_means(self.scores(pooled, 0, frames), frames.starts)

    def _eta(self, row, frames):
        weights = row.reshape((frames.n_channels, -1))
        return numpy_of(row).dot(frames.design, weights.T)

    def _mean(self, row, frames):
        eta = self._eta(row, frames)
        return 0.5 + 0.5 * np.tanh(0.5 * eta) if self.family == "bernoulli" else np.exp(eta)
