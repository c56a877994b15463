"""x_t | z_t = k ~ Categorical(p_k), x_t one of the codes 0 ... C - 1.

Parameters of a state: log p_kc / p_k,C-1, (C - 1,).
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ....checks import check_whole, real_number
from .. import simplex
from ..sequences import check_codes, local_means
from .base import Emission
from .priors import Dirichlet, Prior

MOST = 10**5  # categories


class CategoricalParams(NamedTuple):
    """probability (K, C), rows that sum to 1."""

    probability: np.ndarray


@dataclass(frozen=True, repr=False)
class Categorical(Emission):
    """p_k ~ Dirichlet(concentration, ...); n_categories: C, by default the largest code and 1.

    fixed: None, or (K, C) probabilities that stay as they are, nan where free.
    """

    n_categories: int | None = None
    concentration: float = 1.1
    fixed: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self):
        concentration = real_number("concentration", self.concentration, least=1.0)
        object.__setattr__(self, "concentration", concentration)
        if self.n_categories is not None:
            n_categories = check_whole("n_categories", self.n_categories, 2, MOST)
            object.__setattr__(self, "n_categories", n_categories)

    def settled(self, sequences):
        x = np.concatenate(sequences)
        if x.shape[1] != 1:
            raise ValueError(f"{x.shape[1]} channels of codes: categorical emissions have one")
        check_codes(x)
        found = int(np.nanmax(x)) + 1
        if self.n_categories is None and found > max(len(x), 2):
            largest = f"the code {found - 1} in {len(x)} frames"
            raise ValueError(f"{largest}: number the categories from 0, or pass n_categories")
        return replace(self, n_categories=self.n_categories or found)

    def prepared(self, x):
        check_codes(x, self.n_categories)
        return x

    def state_shape(self, n_channels):
        return 1, self.n_categories - 1

    def unpack(self, states, n_channels) -> CategoricalParams:
        return CategoricalParams(np.exp(simplex.log_probabilities(states)))

    def pack(self, named: CategoricalParams) -> np.ndarray:
        return simplex.log_ratios(named.probability).ravel()

    def prior(self, n_states, n_channels):
        places = np.arange(n_states * (self.n_categories - 1)).reshape(n_states, -1)
        return Prior(((self._law(n_states), places),))

    def _law(self, n_states):
        return Dirichlet.fixing(self.fixed, (n_states, self.n_categories), self.concentration)

    def log_density(self, state, frames):
        return simplex.log_probabilities(state[None])[0][_codes(frames)]

    def scores(self, state, frames):
        p = np.exp(simplex.log_probabilities(state[None]))
        return simplex.score(np.eye(self.n_categories)[_codes(frames)], p)

    def information(self, state, frames, mass):
        p = np.exp(simplex.log_probabilities(state[None]))
        return simplex.information(mass.sum(keepdims=True), p)[0]

    def features(self, frames):
        """How often each category occurs around a frame."""
        return local_means(np.eye(self.n_categories)[_codes(frames)], frames.starts)

    def maximise(self, states, frames, mass):
        codes = _codes(frames)
        counts = np.array([np.bincount(codes, own, self.n_categories) for own in mass.T])
        law = self._law(len(counts))
        return simplex.log_ratios(law.rows(counts + self.concentration - 1.0)).ravel()

    def mean(self, state, frames):
        """That of the codes."""
        return self.unpack(state[None], 1).probability @ np.arange(self.n_categories)[:, None]

    def draw(self, state, frames, rng):
        p = self.unpack(state[None], 1).probability[0]
        return rng.choice(self.n_categories, (len(frames.x), 1), p=p)


def _codes(frames):
    return frames.x[:, 0].astype(int)
