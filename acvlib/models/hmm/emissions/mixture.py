"""p(x_t | z_t = k) = sum_c weight_kc p(x_t | component c of state k), components of any emission.

Parameters of a state: log weight_kc / weight_k,C-1, (C - 1,), then those of its C components.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.linalg import block_diag
from scipy.special import softmax

from ....checks import check_whole, real_number
from .. import simplex
from .base import Emission, k_means
from .gaussian import Gaussian
from .priors import Dirichlet, Prior

MOST = 10**4  # components


class MixtureParams(NamedTuple):
    """weight (K, C), rows that sum to 1; component: its parameters, (K C, ...), state by state."""

    weight: np.ndarray
    component: Any


@dataclass(frozen=True, repr=False)
class Mixture(Emission):
    """Of n_components each; weights ~ Dirichlet(concentration, ...)."""

    n_components: int = 2
    component: Emission = field(default_factory=Gaussian)
    concentration: float = 1.1

    def __post_init__(self):
        n_components = check_whole("n_components", self.n_components, 1, MOST)
        object.__setattr__(self, "n_components", n_components)
        if not isinstance(self.component, Emission) or self.component.order:
            raise TypeError(
                f"component {self.component!r:.60}: an emission that looks back at none"
            )
        real_number("concentration", self.concentration, least=1.0)

    @property
    def misses_channels(self):
        return self.component.misses_channels

    def settled(self, sequences):
        return replace(self, component=self.component.settled(sequences))

    def prepared(self, x):
        return self.component.prepared(x)

    def state_shape(self, n_channels):
        _, size = self.component.state_shape(n_channels)
        return 1, self.n_components * (1 + size) - 1

    def unpack(self, states, n_channels) -> MixtureParams:
        log_weights, components = self._parts(states)
        rows = anp.reshape(components, (-1, components.shape[-1]))
        return MixtureParams(anp.exp(log_weights), self.component.unpack(rows, n_channels))

    def pack(self, named: MixtureParams) -> np.ndarray:
        return self._packed(named.weight, self.component.pack(named.component))

    def _packed(self, weights, components):
        ratios = simplex.log_ratios(weights)
        return np.hstack([ratios, components.reshape(len(weights), -1)]).ravel()

    def _parts(self, states):
        """Log weights (K, C) and components (K, C, d) of rows (K, e)."""
        cut = self.n_components - 1
        components = anp.reshape(states[:, cut:], (len(states), self.n_components, -1))
        return simplex.log_probabilities(states[:, :cut]), components

    def prior(self, n_states, n_channels):
        _, size = self.state_shape(n_channels)
        places = np.arange(n_states * size).reshape(n_states, -1)
        cut = self.n_components - 1
        inner = self.component.prior(n_states * self.n_components, n_channels)
        of_components = places[:, cut:].ravel()
        parts = [(law, of_components[own]) for law, own in inner.parts]
        return Prior(((Dirichlet(self.concentration), places[:, :cut]), *parts))

    def log_density(self, state, frames):
        from autograd.scipy.special import logsumexp  # loads all of scipy.stats: not at import

        return logsumexp(self._joint(state, frames), axis=1)

    def _joint(self, state, frames):
        """log weight_c + log p(x_t | c), (n, C)."""
        log_weights, components = self._parts(state[None])
        columns = [self.component.log_density(row, frames) for row in components[0]]
        return anp.stack(columns, axis=1) + log_weights

    def _responsibilities(self, state, frames):
        """P(c | x_t, k), (n, C)."""
        joint = self._joint(state, frames)
        return softmax(joint, axis=1)

    def scores(self, state, frames):
        shares = self._responsibilities(state, frames)
        each = self._component_scores(state, frames)
        return np.einsum("nc,cne->ne", shares, each)

    def _component_scores(self, state, frames):
        """d (log weight_c + log p(x_t | c)), (C, n, e), zero but for its own component."""
        log_weights, components = self._parts(state[None])
        cut = self.n_components - 1
        scores = np.zeros((self.n_components, len(frames.x), len(state)))
        scores[:, :, :cut] = (np.eye(self.n_components) - np.exp(log_weights))[:, None, :-1]
        own = scores[:, :, cut:].reshape(*scores.shape[:2], self.n_components, -1)
        for c, row in enumerate(components[0]):
            own[c, :, c] = self.component.scores(row, frames)
        scores[:, :, cut:] = own.reshape(*scores.shape[:2], -1)
        return scores

    def information(self, state, frames, mass):
        """That of the components where they are known, less what not knowing them takes (Louis)."""
        shares = mass[:, None] * self._responsibilities(state, frames)
        log_weights, components = self._parts(state[None])
        total = simplex.information(mass.sum(keepdims=True), np.exp(log_weights))
        known = [total[0]]
        for row, own in zip(components[0], shares.T, strict=True):
            known.append(self.component.information(row, frames, own))
        missing = -self._squares(self.scores(state, frames), mass)
        for own, scores in zip(shares.T, self._component_scores(state, frames), strict=True):
            missing += self._squares(scores, own)
        return block_diag(*known) - missing

    def _squares(self, scores, mass):
        return (mass[:, None] * scores).T @ scores

    def start(self, frames, labels, n_states):
        """The frames of each state parted by K-means; by the prior alone where they are too few."""
        parts = np.zeros(len(labels), int)
        features = self.component.features(frames)
        for k in range(n_states):
            rows = np.flatnonzero((labels == k) & frames.observed)
            if len(np.unique(features[rows], axis=0)) >= self.n_components:
                parts[rows] = k_means(features[rows], self.n_components, 0, "n_components")
        split = labels * self.n_components + parts
        counts = np.bincount(split[frames.observed], minlength=n_states * self.n_components)
        components = self.component.start(frames, split, n_states * self.n_components)
        return self._packed(counts.reshape(n_states, -1) + 1.0, components)

    def maximise(self, states, frames, mass):
        """The M-step with components unknown, as states are."""
        shares = [self._responsibilities(state, frames) for state in states]
        by_component = np.hstack([own[:, None] * r for own, r in zip(mass.T, shares, strict=True)])
        _, components = self._parts(states)
        rows = components.reshape(len(states) * self.n_components, -1)
        counts = by_component.sum(axis=0).reshape(len(states), -1) + self.concentration - 1.0
        return self._packed(counts, self.component.maximise(rows, frames, by_component))

    def mean(self, state, frames):
        log_weights, components = self._parts(state[None])
        means = [self.component.mean(row, frames) for row in components[0]]
        return np.tensordot(np.exp(log_weights[0]), np.array(means), 1)

    def draw(self, state, frames, rng):
        log_weights, components = self._parts(state[None])
        chosen = rng.choice(self.n_components, len(frames.x), p=np.exp(log_weights[0]))
        each = np.array([self.component.draw(row, frames, rng) for row in components[0]])
        return each[chosen, np.arange(len(chosen))]
