"""Codes, x_t | z_t = k ~ Categorical(p_k)."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from ....checks import in_named_columns
from ....declared import Real, Whole, declared
from ..frames import Frames
from ..parameters import Simplex
from .base import Emission, alone, numpy_of
from .counts import check_codes, local_means

MOST = 10**5  # categories


class CategoricalParams(NamedTuple):
    """probability (K, C), rows that sum to 1, in the order of `Categorical.symbols`."""

    probability: np.ndarray


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
            codes = np.unique(x[np.isfinite(x)]) if n is None else np.arange(float(n))
            names = tuple(codes.tolist())
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
            remedy = f"let it be nan, or give n_categories={other.max() + 1:g}"
            raise ValueError(f"x holds {other[0]:g}: only {known}{more} are expected: {remedy}")
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

    def extreme(self, rows: np.ndarray, frames: Frames):
        return self.law(rows.shape[-2]).extreme(rows)

    def check_optimum(self, rows: np.ndarray, expected: Any):
        remedy = "give an emission_concentration, in hmmlearn emissionprob_prior,"
        self.law(len(rows)).check_optimum(expected, remedy)

    def features(self, frames: Frames):
        """A frame's own category, with how often each occurs around it."""
        own = np.eye(self.n_categories)[_codes(frames)]
        return np.hstack([own, local_means(own, frames.starts)])


def _codes(frames):
    return frames.x[:, 0].astype(int)
