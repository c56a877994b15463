"""Hidden Markov models with a known number of states, drawn at a given difficulty."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from acvlib.models import CategoricalHMM, GaussianHMM, PoissonHMM

EMISSIONS = ("gaussian", "poisson", "categorical")
N_CATEGORIES = 6
STAY = (0.8, 0.95)  # between which a state's probability to stay is drawn


class Design(NamedTuple):
    """What is simulated: separation is the distance of neighbouring states in standard deviations.

    That of Poisson and categorical states is the one of Gaussians with the same Hellinger distance.
    """

    emission: str
    n_states: int
    separation: float
    n_sequences: int
    n_frames: int


def designs(
    n_states=(1, 2, 3, 4), separations=(1.5, 2.5, 4.0), n_sequences=(1, 10), n_frames=(200, 400)
):
    """All combinations with all emissions; one state has no separation: it is 0."""
    every = itertools.product(EMISSIONS, n_states, separations, n_sequences, n_frames)
    rows = [Design(*row) for row in every]
    return list(dict.fromkeys(row._replace(separation=0.0) if row[1] == 1 else row for row in rows))


class Truth(NamedTuple):
    """transition (K, K), its rows cumulated; law: means, rates, or categories' p of each state."""

    emission: str
    transition: np.ndarray
    law: np.ndarray

    def draw(self, lengths: list[int], rng: np.random.Generator) -> list[np.ndarray]:
        """Sequences of these lengths; all first states are equally likely."""
        return [self._draw(self._path(length, rng), rng) for length in lengths]

    def _path(self, length, rng):
        draws = rng.random(length)
        k = len(self.transition)
        path = [int(rng.integers(k))]
        for draw in draws[1:]:
            path.append(int(np.searchsorted(self.transition[path[-1], :-1], draw)))
        return np.array(path)

    def _draw(self, path, rng):
        if self.emission == "gaussian":
            return rng.normal(self.law[path])
        if self.emission == "poisson":
            return rng.poisson(self.law[path]).astype(float)
        edges = np.cumsum(self.law, axis=1)[path, :-1]
        return (rng.random((len(path), 1)) > edges).sum(axis=1).astype(float)


def truth(design: Design, rng: np.random.Generator) -> Truth:
    """Draw transition probabilities; emissions are as far apart as the design says."""
    k = design.n_states
    stay = rng.uniform(*STAY, size=k)
    transition = np.repeat(((1.0 - stay) / max(k - 1, 1))[:, None], k, axis=1)
    transition[np.arange(k), np.arange(k)] = stay
    laws = {"poisson": _rates, "categorical": _categories}
    means = design.separation * np.arange(k)
    law = laws[design.emission](k, design.separation) if design.emission in laws else means
    return Truth(design.emission, np.cumsum(transition, axis=1), law)


def _rates(k, separation):
    """Roots half as far apart: sum_x sqrt(p q) = exp(-(sqrt(a) - sqrt(b))^2 / 2)."""
    return (np.sqrt(2.0) + 0.5 * separation * np.arange(k)) ** 2


def _categories(k, separation):
    """Each state prefers a category of its own, all others being equally likely."""

    def affinity(share):
        low = (1.0 - share) / N_CATEGORIES
        return 2.0 * np.sqrt(low * (low + share)) + (N_CATEGORIES - 2) * low

    share = brentq(lambda s: affinity(s) - np.exp(-(separation**2) / 8.0), 0.0, 1.0)
    return (1.0 - share) / N_CATEGORIES + share * np.eye(k, N_CATEGORIES)


def model_of(design: Design, x: list[np.ndarray], n_states: int) -> Any:
    """The candidate with so many states, under the library's default priors."""
    if design.emission == "gaussian":
        return GaussianHMM(x, n_states, sites="steps")
    if design.emission == "poisson":
        return PoissonHMM(x, n_states, sites="steps")
    return CategoricalHMM(x, n_states, N_CATEGORIES, sites="steps")
