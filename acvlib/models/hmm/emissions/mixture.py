"""p(x_t | z_t = k) = sum_c weight_kc p(x_t | component c of state k), components of any emission.

A row: log weights (C,) to the last one's, which is 0, then the rows of the C components.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from ....declared import Real, Whole, declared
from ..em import k_means
from ..frames import Frames
from ..parameters import Simplex, log_softmax
from .base import Emission, alone, check_simple, in_rows, likely, numpy_of
from .gaussian import Gaussian

MOST = 10**4  # components


class MixtureParams(NamedTuple):
    """weight (K, C), rows that sum to 1; component: its parameters, (K C, ...), state by state."""

    weight: np.ndarray
    component: Any


@declared
@dataclass(frozen=True, repr=False)
class Mixture(Emission):
    """Of n_components each; weights ~ Dirichlet(weight_concentration, ...)."""

    n_components: Annotated[int, Whole(1, MOST)] = 2
    component: Emission = field(default_factory=Gaussian)
    weight_concentration: Annotated[float, Real("", least=1.0)] = 1.1
    priors = {"weight_concentration": (1.1, 1.001)}

    def __post_init__(self):
        check_simple("component", self.component)

    @property
    def misses_channels(self):
        return self.component.misses_channels

    @property
    def has_zeros(self):
        return self.component.has_zeros

    def without_defaults(self):
        return super().without_defaults() | {
            name: (law, flat, replace(self, component=other))
            for name, (law, flat, other) in self.component.without_defaults().items()
        }

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        return replace(self, component=self.component.settled(x, inputs, weights))

    def prepared(self, x: np.ndarray):
        return self.component.prepared(x)

    def state_size(self, n_channels: int):
        return self.n_components * (1 + self.component.state_size(n_channels))

    def law(self, n_states: int) -> Simplex:
        """Of the weights."""
        return self._law(n_states, self.n_components, self.weight_concentration)

    def kept(self, n_states: int, n_channels: int):
        inner = self.component.kept(n_states * self.n_components, n_channels)
        return np.hstack([self.law(n_states).kept, inner.reshape(n_states, -1)])

    def unpack(self, rows: np.ndarray, n_channels: int):
        log_weights, components = self._parts(rows)
        weight = numpy_of(rows).exp(log_weights)
        return MixtureParams(weight, self.component.unpack(components, n_channels))

    def pack(self, named: Any):
        return self._packed(np.asarray(named.weight), self.component.pack(named.component))

    def _packed(self, weights, components):
        first = self.law(len(weights)).weights(weights, "weight")
        return np.hstack([first, components.reshape(len(weights), -1)])

    def _parts(self, rows):
        """Log weights (..., K, C) and rows of components (..., K C, d)."""
        cut = self.n_components
        *lead, k, size = rows.shape
        components = rows[..., cut:].reshape((*lead, k * cut, size // cut - 1))
        return log_softmax(rows[..., :cut]), components

    def minus_log_prior(self, rows: Any):
        log_weights, components = self._parts(rows)
        of_weights, first = self.law(rows.shape[-2]).minus_log_prior(log_weights)
        value, slopes = self.component.minus_log_prior(components)
        joined = [first, slopes.reshape((*rows.shape[:-1], -1))]
        return value + of_weights, numpy_of(rows).concatenate(joined, axis=-1)

    def log_densities(self, rows: Any, frames: Frames):
        xp = numpy_of(rows)
        joint = self._joint(rows, frames)
        top = xp.max(joint, axis=2, keepdims=True)
        return top[:, :, 0] + xp.log(xp.sum(xp.exp(joint - top), axis=2))

    def _joint(self, rows, frames):
        """log weight_c + log p(x_t | c), (n, K, C)."""
        log_weights, components = self._parts(rows)
        each = self.component.log_densities(components, frames)
        return each.reshape((len(frames.x), *log_weights.shape)) + log_weights

    def _shares(self, rows, frames):
        """P(c | x_t, k), (n, K, C)."""
        return np.exp(log_softmax(self._joint(rows, frames)))

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        scores = self._component_scores(rows, k, frames)
        shares = self._shares(rows[k : k + 1], frames)[:, 0]
        return alone(np.einsum("nc,cne->ne", shares, scores))

    def _component_scores(self, rows, k, frames):
        """d (log weight_c + log p(x_t | c)) (C, n, e), zero but for its own component."""
        log_weights, components = self._parts(rows)
        cut = self.n_components
        scores = np.zeros((cut, len(frames.x), rows.shape[1]))
        scores[:, :, :cut] = (np.eye(cut) - np.exp(log_weights[k]))[:, None]
        places = np.arange(cut, rows.shape[1]).reshape(cut, -1)
        for c, place in enumerate(places):
            scores[c, :, place] = self.component.scores(components, k * cut + c, frames).T
        return scores

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray):
        """Frames and counts of each state; expected counts of the components, and what they say."""
        by_component = mass[:, :, None] * self._shares(rows, frames)
        components = self._parts(rows)[1]
        inner = self.component.expected(components, frames, in_rows(by_component))
        return likely(frames, mass), by_component.sum(axis=0), inner

    def slopes(self, rows: np.ndarray, expected: Any):
        _, counts, inner = expected
        log_weights, components = self._parts(rows)
        first = self.law(len(rows)).score(counts, np.exp(log_weights))
        return np.hstack([first, self.component.slopes(components, inner).reshape(len(rows), -1)])

    def information(self, rows: np.ndarray, expected: Any):
        """That of the components where they are known, less what not knowing them takes (Louis)."""
        parts, counts, inner = expected
        log_weights, components = self._parts(rows)
        of_weights = self.law(len(rows)).information(counts, np.exp(log_weights))
        _, each = self.component.information(components, inner)
        each = each.reshape(len(rows), self.n_components, *each.shape[1:])
        pairs = zip(of_weights, each, strict=True)
        matrices = [block_diag(first, *blocks) for first, blocks in pairs]
        for k, (frames, mass) in enumerate(parts):
            shares = mass[:, None] * self._shares(rows[k : k + 1], frames)[:, 0]
            matrices[k] += _squares(self.scores(rows, k, frames), mass)
            pairs = zip(self._component_scores(rows, k, frames), shares.T, strict=True)
            matrices[k] -= sum(_squares(*pair) for pair in pairs)
        return np.zeros((len(rows), 0, rows.shape[1])), np.array(matrices)

    def extreme(self, rows: np.ndarray, frames: Frames):
        components = self.component.extreme(self._parts(rows)[1], frames)
        return components | self.law(rows.shape[-2]).extreme(rows[..., : self.n_components])

    def check_optimum(self, rows: np.ndarray, expected: Any):
        _, counts, inner = expected
        remedy = "give a weight_concentration, in hmmlearn weights_prior,"
        self.law(len(rows)).check_optimum(counts, remedy)
        self.component.check_optimum(self._parts(rows)[1], inner)

    def start(self, frames: Frames, labels: np.ndarray, n_states: int):
        """The frames of each state parted by K-means; by the prior alone where they are too few."""
        rng = np.random.default_rng(0)
        parts = np.zeros(len(labels), int)
        features = self.component.features(frames)
        for k in range(n_states):
            rows = np.flatnonzero((labels == k) & frames.observed)
            if len(np.unique(features[rows], axis=0)) >= self.n_components:
                parts[rows] = k_means(features[rows], self.n_components, rng, "n_components")
        split = labels * self.n_components + parts
        counts = np.bincount(split[frames.observed], minlength=n_states * self.n_components)
        components = self.component.start(frames, split, n_states * self.n_components)
        weights = counts.reshape(n_states, -1) + 1.0
        return self._packed(weights / weights.sum(axis=1, keepdims=True), components)

    def maximise(self, rows: np.ndarray, expected: Any):
        """The M-step with components unknown, as states are."""
        _, counts, inner = expected
        law = self.law(len(rows))
        weights = law.rows(counts + law.pseudo_counts)
        return self._packed(weights, self.component.maximise(self._parts(rows)[1], inner))


def _squares(scores, mass):
    return (mass[:, None] * scores).T @ scores
