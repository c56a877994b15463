"""Hidden Markov models of one or many sequences, whole sequences or single time steps left out.

z_1 ~ initial;  z_t | z_t-1 ~ transition;  x_t | z_t = k, x_t-1 ... x_t-p ~ emission k
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import autograd.numpy as np
import numpy as onp

from ...inference import chain, hidden_chain
from ...weighting import check, keep_latents
from . import simplex
from .derivatives import HMMFast
from .emissions import AutoRegression, Gaussian, NeuralAutoRegression
from .sequences import check_sequences, make_frames

SITES = ("sequences", "steps")


class HMMParams(NamedTuple):
    """initial (K,), transition (K, K) with rows that sum to 1, emission: the emission's own named parameters."""

    initial: onp.ndarray
    transition: onp.ndarray
    emission: NamedTuple


@dataclass(frozen=True)
class HMM:
    """MAP of a K-state HMM in unconstrained coordinates; the density of the constrained parameters is maximised.

    sequences: arrays (T_n, R); a frame of nan is missing, and so is then, for an emission of order p, each of the p
    frames after it. emission: see `models.emissions`. sites: "sequences" leaves out whole sequences, with
    log p(x; w) = sum_n w_n log p(x_n) (Ghosh et al. 2020, Algorithm 2); "steps" leaves out frames by `scheme`
    (Eqs. 4, 5). A left-out frame loses its own term, and is still looked back at by the p frames after it: the
    likelihood is conditional on the lags, in exact and approximate cross-validation alike.

    params: log ratios to the last state of the initial and of each transition row, the emission's parameters.
    held: None, or values of the first of these, which are then no parameters any more: see `hold`. context: how many
    frames of each sequence are only looked back at, by default p; a common value makes orders comparable. Sites and
    frames are counted without them. Dirichlet(`concentration`) priors on rows of probabilities. States may be
    permuted without any change.

    Raises ValueError for sequences too short, unlike or not finite, constant channels, too few frames for K states,
    a concentration below 1.
    """

    sequences: list = field(repr=False)
    n_states: int
    emission: object = field(default_factory=Gaussian)
    sites: str = "sequences"
    scheme: callable = keep_latents
    concentration: float = 1.1
    context: int | None = None
    held: onp.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        order = self.emission.order
        context = order if self.context is None else self.context
        if self.sites not in SITES or self.n_states < 1 or context < order:
            raise ValueError(
                f"sites must be one of {SITES}, n_states >= 1 and context >= {order}, the order; "
                f"got {self.sites!r}, {self.n_states} and {context}"
            )
        if not 1.0 <= self.concentration < onp.inf:
            raise ValueError(
                f"concentration = {self.concentration}: with less than 1 probabilities have no maximum"
            )
        object.__setattr__(self, "context", context)
        object.__setattr__(self, "sequences", check_sequences(self.sequences, context))
        seen = int(self.frames.observed.sum())
        if seen <= self.n_states:
            raise ValueError(
                f"{seen} observed frames cannot support {self.n_states} states: lower n_states"
            )
        if self.held is not None and onp.shape(self.held) != (self.n_nuisance,):
            raise ValueError(
                f"held has shape {onp.shape(self.held)}, not ({self.n_nuisance},): see hold()"
            )

    @cached_property
    def frames(self):
        """The `Frames` that are predicted."""
        return make_frames(self.sequences, self.emission.order, self.context)

    @property
    def n_channels(self):
        return self.sequences[0].shape[1]

    @property
    def n_sites(self):
        return len(self.sequences) if self.sites == "sequences" else len(self.frames.x)

    @cached_property
    def observed(self):
        """(n_sites,) False where a sequence has no observed frame, or a frame or one of its lags is missing."""
        if self.sites == "steps":
            return self.frames.observed
        return onp.add.reduceat(self.frames.observed, self.frames.starts[:-1]) > 0

    @property
    def n_nuisance(self):
        """How many of the parameters come before those of single states: K - 1, K (K - 1), the emission's shared."""
        return self.n_states**2 - 1 + self.emission.n_shared

    @property
    def n_params(self):
        """D."""
        total = self.n_states**2 - 1 + self.emission.n_params(self.n_states, self.n_channels)
        return total - (0 if self.held is None else self.n_nuisance)

    @cached_property
    def fast(self):
        """Compiled smoothing and matrix-free curvature, under scheme A; tested against autograd of `objective`."""
        return HMMFast(self) if self.scheme is keep_latents else None

    def hold(self, params):
        """(this model with initial, transition and shared emission parameters held, the params that stay free).

        As the paper counts: Theta = (B, b), D = K R (p R + 1) in Eq. 17.
        """
        params = onp.asarray(params, float)
        return replace(self, held=params[: self.n_nuisance]), params[self.n_nuisance :]

    def whole(self, params):
        """All parameters, with what is held in front."""
        return params if self.held is None else np.concatenate([self.held, params])

    def split(self, params):
        """(log ratios of the initial (1, K - 1), of the transitions (K, K - 1), emission parameters)."""
        k, params = self.n_states, self.whole(params)
        rows = np.reshape(params[: k**2 - 1], (k + 1, k - 1)) if k > 1 else onp.zeros((2, 0))
        return rows[:1], rows[1:], params[k**2 - 1 :]

    def unpack(self, params):
        """Named, constrained parameters."""
        initial, transition, emission = self.split(params)
        named = self.emission.unpack(emission, self.n_states, self.n_channels)
        return HMMParams(
            simplex.probabilities(initial)[0], simplex.probabilities(transition), named
        )

    def log_densities(self, params):
        """log p(x_t | z_t = k, lags), (M, K), zero where missing; differentiable."""
        return self.emission.log_densities(self.split(params)[2], self.frames, self.n_states)

    def log_chain(self, params):
        """(log initial (K,), log transition (K, K))."""
        initial, transition, _ = self.split(params)
        return simplex.log_probabilities(initial)[0], simplex.log_probabilities(transition)

    def log_prior(self, params):
        """log p(initial, transition, emission) up to a constant."""
        log_initial, log_transition = self.log_chain(params)
        rows = (self.concentration - 1.0) * (np.sum(log_initial) + np.sum(log_transition))
        return rows - self.emission.minus_log_prior(
            self.split(params)[2], self.n_states, self.n_channels
        )

    def objective(self, params, weights):
        """F = -log p(x; params, weights) - log p(params)."""
        check(weights, self.n_sites)
        densities, log_chain = self.log_densities(params), self.log_chain(params)
        total = 0.0
        for n, frames in enumerate(self.pieces()):
            w = weights[frames] if self.sites == "steps" else onp.ones(len(densities[frames]))
            node, edge = hidden_chain.potentials(self.scheme, w, densities[frames], *log_chain)
            total = total + (1.0 if self.sites == "steps" else weights[n]) * chain.log_partition(
                node, edge
            )
        return -total - self.log_prior(params)

    def pieces(self):
        """A slice of the frames for each sequence."""
        return [
            slice(a, b)
            for a, b in zip(self.frames.starts[:-1], self.frames.starts[1:], strict=True)
        ]

    def heldout_loss(self, params, fold):
        """-log p(x_n; params) of each left-out sequence, or -log p(x_t | frames outside the fold, lags; params)."""
        if self.sites == "sequences":
            return self.sequence_losses(params, [self.sequences[n] for n in fold])
        densities, losses, fold = (
            self.log_densities(params),
            onp.empty(len(fold)),
            onp.asarray(fold),
        )
        for frames in self.pieces():
            own = (fold >= frames.start) & (fold < frames.stop)
            if own.any():
                local = fold[own] - frames.start
                losses[own] = hidden_chain.heldout_loss(
                    densities[frames], *self.log_chain(params), local
                )
        return losses

    def sequence_losses(self, params, sequences):
        """-log p(x_n; params) of any sequences (T_n, R), new ones too, one for each."""
        frames = make_frames(
            [onp.asarray(s, float) for s in sequences], self.emission.order, self.context
        )
        return HMMFast(self).sequence_losses(params, frames)

    def initial_params(self, rng=None):
        """K-means on the observed frames, sticky transitions; `rng` seeds K-means."""
        from sklearn.cluster import KMeans

        observed, labels = self.frames.observed, onp.zeros(len(self.frames.x), int)
        seed = 0 if rng is None else int(rng.integers(2**31))
        clusters = KMeans(self.n_states, n_init=4, random_state=seed).fit(self.frames.x[observed])
        labels[observed] = clusters.labels_
        return self.params_of_labels(labels)

    def params_of_labels(self, labels):
        """Params whose emissions are fitted to frames with these states (M,), and whose transitions are sticky."""
        k, start = self.n_states, self.emission.start(self.frames, labels, self.n_states)
        if self.held is not None:
            return start[self.emission.n_shared :]
        sticky = simplex.log_ratios(0.1 / k + 0.9 * onp.eye(k))
        return onp.concatenate([onp.zeros(k - 1), sticky.ravel(), start])


def GaussianHMM(
    x,
    n_states,
    scheme=keep_latents,
    concentration=1.1,
    mean_scale=100.0,
    variance_prior=(1.0, 0.01),
):
    """One sequence x (T, R) or (T,), emissions Normal(mean_k, diag(sd_k^2)); sites are its time steps."""
    return HMM([x], n_states, Gaussian(mean_scale, variance_prior), "steps", scheme, concentration)


def AutoRegressiveHMM(sequences, n_states, order=1, **settings):
    """Eq. 17 of Ghosh et al. (2020): x_t ~ Normal(sum_m B_k^m x_t-m + b_k, sigma^2 I); settings as in `HMM`."""
    return HMM(sequences, n_states, AutoRegression(order), **settings)


def NeuralHMM(sequences, n_states, order=1, n_hidden=12, **settings):
    """Eq. 18: a network with one hidden layer for each state in place of the matrices; settings as in `HMM`."""
    return HMM(sequences, n_states, NeuralAutoRegression(order, n_hidden), **settings)
