"""Hidden Markov models of one or many sequences, whole sequences or single time steps left out.

z_1 ~ initial;  z_t | z_t-1 ~ transition;  x_t | z_t = k, x_t-1 ... x_t-p ~ emission k
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import autograd.numpy as anp
import numpy as np
from scipy.special import logsumexp

from ... import weighting
from ...checks import check_choice, check_whole
from ...folds import weights as fold_weights
from ...inference import chain, hidden_chain
from ...model import ModelDefaults, checked, own_copy
from ...weighting import keep_latents
from .derivatives import HMMDerivatives
from .em import climbed
from .emissions import Emission, Gaussian
from .parameters import HMMParams, Parameters
from .posterior import HiddenStates, ImpossibleSequence, check_explained, hidden_states
from .prediction import Predictions
from .sequences import Frames, check_channels, check_observed, make_frames, read_sequences
from .starts import in_order, k_means

__all__ = ["HMM", "HMMParams", "ImpossibleSequence"]

SITES = ("sequences", "steps")
IMPOSSIBLE = -1e9  # the log of a 0, where sums are to stay finite
STAY = 0.9  # share of a start's transition probability that stays in its state


@dataclass(frozen=True, repr=False)
class HMM(Parameters, Predictions, ModelDefaults):
    """Maximise the posterior density of a K-state HMM.

    Params (D,) are log ratios of the initial and of each transition row to the last entry that is
    free, then the emission's parameters. States may be permuted. Sites and frames are counted
    without `context`.

    Parameters
    ----------
    sequences: arrays (T_n, R), or (X, lengths); a frame of nan, or masked, is missing, and so are,
        for an emission of order p, the p frames after it.
    emission: see `models.hmm.emissions`.
    sites: "sequences" leaves out whole sequences: log p(x; w) = sum_n w_n log p(x_n) (Algorithm 2);
        "steps" leaves out frames by `scheme` (Eqs. 4, 5). A left-out frame loses its own term, and
        the p frames after it still look back at it, in exact and approximate folds alike.
    concentration: of Dirichlet priors on rows of probabilities; 1 is flat: maximum likelihood. One
        number, or for the initial and each transition row (K + 1, 1), or for each entry (K + 1, K).
    fixed: None, or (K + 1, K) initial and transition probabilities that stay as they are, 0 for
        what cannot happen, nan where free.
    context: how many frames of each sequence are only looked back at, p by default; a common value
        makes orders comparable.
    sample_weight: s >= 0, (n_sites,) or one number: a site counts s times in the fit, not in its
        held-out loss; one of weight 0 is missing, in no fold.
    held: None, or values of the first parameters, which are then not free any more: see `hold`.
    dense_limit: parameters up to which Hessians are formed, which is faster than many products.

    Raises ValueError for unusable sequences or settings, and for too few frames for K states.

    Source: Ghosh et al. (2020).
    """

    sequences: Sequence[np.ndarray] = field(repr=False)
    n_states: int
    emission: Emission = field(default_factory=Gaussian)
    sites: str = "sequences"
    scheme: Callable = keep_latents
    concentration: Any = 1.1
    context: int | None = None
    sample_weight: Any = field(default=1.0, repr=False)
    fixed: Any = field(default=None, repr=False)
    held: np.ndarray | None = field(default=None, repr=False)
    dense_limit: int = field(default=300, repr=False)

    def __post_init__(self):
        self._check_settings()
        object.__setattr__(self, "sequences", read_sequences(self.sequences, self.context))
        self._weigh()
        for name in ("concentration", "fixed"):
            object.__setattr__(self, name, getattr(self.chain_prior, name))
        seen = int(self.frames.observed.sum())
        if seen <= self.n_states:
            few = f"{seen} observed frames cannot support {self.n_states} states"
            raise ValueError(f"{few}: lower n_states")
        if self.held is not None:
            object.__setattr__(self, "held", own_copy(self.held, name="held"))
            if self.held.shape != (self.n_nuisance,) or not np.isfinite(self.held).all():
                raise ValueError(
                    f"held {self.held.shape}: must be ({self.n_nuisance},), finite: see hold()"
                )

    def _check_settings(self):
        if not isinstance(self.emission, Emission):
            raise TypeError(f"emission {self.emission!r:.60}: take one of models.hmm.emissions")
        if not callable(self.scheme):
            raise TypeError(f"scheme {self.scheme!r:.60}: take one of acv.weighting")
        check_choice("sites", self.sites, SITES)
        order = self.emission.order
        if self.context is None:
            object.__setattr__(self, "context", order)
        for name, least in {"n_states": 1, "context": order, "dense_limit": 0}.items():
            object.__setattr__(self, name, check_whole(name, getattr(self, name), least))

    def _weigh(self):
        """Check the sample weights; give the emission what it takes from frames that have one."""
        weights = weighting.site_weights(self.sample_weight, self.n_sites)
        if self.scheme is not keep_latents and (weights != 1.0).any():
            raise ValueError(
                "sample_weight needs scheme keep_latents: under others edges count s^2"
            )
        object.__setattr__(self, "sample_weight", weights)
        lengths = [len(x) for x in self.sequences]
        if self.sites == "sequences":
            of_frames = np.repeat(weights, lengths)
        else:
            n_sites = np.array(lengths) - self.context
            parts = np.split(weights, np.cumsum(n_sites)[:-1])
            of_frames = np.concatenate([np.pad(w, (self.context, 0), "edge") for w in parts])
        every = np.concatenate(self.sequences)[of_frames > 0.0]
        x, inputs = np.split(every, [self.n_channels], axis=1)
        check_channels(x)
        settled = self.emission.settled(x, inputs, of_frames[of_frames > 0.0])
        object.__setattr__(self, "emission", settled)

    # sites

    @cached_property
    def frames(self) -> Frames:
        """The `Frames` that are predicted."""
        return make_frames(self.sequences, self.emission, self.context)

    @cached_property
    def weighed_frames(self) -> Frames:
        """`frames`, those of sample weight 0 missing."""
        weighs = self.sample_weight > 0.0
        if self.sites == "sequences":
            weighs = np.repeat(weighs, np.diff(self.frames.starts))
        return self.frames if weighs.all() else self.frames.only(weighs)

    @property
    def n_channels(self) -> int:
        """R, without inputs."""
        return self.sequences[0].shape[1] - self.emission.n_inputs

    @cached_property
    def n_sites(self) -> int:
        """Sequences or frames."""
        if self.sites == "sequences":
            return len(self.sequences)
        return sum(len(x) - self.context for x in self.sequences)

    @cached_property
    def observed(self) -> np.ndarray:
        """(n_sites,) False where a whole sequence, or a frame or one of its lags, is missing."""
        seen = self.frames.observed
        if self.sites == "sequences":
            seen = np.add.reduceat(seen, self.frames.starts[:-1]) > 0
        return seen & (self.sample_weight > 0.0)

    def pieces(self) -> list[slice]:
        """A slice of the frames for each sequence."""
        return [slice(first, stop) for first, stop in pairwise(self.frames.starts)]

    # density

    @cached_property
    def derivatives(self) -> HMMDerivatives | None:
        """By compiled smoothing, under scheme A; None, which means autograd, under others."""
        if self.scheme is not keep_latents:
            return None
        check_explained(self)
        return HMMDerivatives(self)

    @checked
    def log_densities(self, params: np.ndarray) -> np.ndarray:
        """log p(x_t | z_t = k, lags), (M, K), zero where missing; differentiable."""
        return self.log_densities_of(params, self.frames)

    def log_densities_of(self, params: np.ndarray, frames: Frames) -> np.ndarray:
        """The same of other frames."""
        _, rows = self.split(params)
        return anp.where(frames.observed[:, None], self.emission.log_densities(rows, frames), 0.0)

    @checked
    def log_chain(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(log initial (K,), log transition (K, K)); differentiable."""
        rows = self.chain_prior.log_p(self.split(params)[0])
        return rows[0], rows[1:]

    @checked
    def log_prior(self, params: np.ndarray) -> float:
        """log p(initial, transition, emission) up to a constant; differentiable."""
        chain, rows = self.split(params)
        of_chain = self.chain_prior.log_density(self.chain_prior.log_p(chain))
        return of_chain - self.emission.minus_log_prior(rows)[0]

    def prior_slopes(self, params: np.ndarray) -> np.ndarray:
        """The gradients of minus the log prior at params (n, D)."""
        if self.held is not None:
            params = np.hstack([np.tile(self.held, (len(params), 1)), params])
            return replace(self, held=None).prior_slopes(params)[:, self.n_nuisance :]
        chain, rows = self.split(params)
        p = np.exp(self.chain_prior.log_p(chain))
        of_chain = -self.chain_prior.score(self.chain_prior.pseudo_counts, p)
        return self.join(of_chain, self.emission.minus_log_prior(rows)[1])

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise `NoFiniteOptimum` where a flat prior lets a probability run to 0."""
        if self.held is not None:
            return
        hidden = HiddenStates(self, params, self.frames, prior=False)
        self.chain_prior.check_optimum(hidden.counts)
        self.emission.check_optimum(hidden.rows, hidden.expected)

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F = -log p(x; params, weights) - log p(params); differentiable."""
        densities = _finite(self.log_densities_of(params, self.frames))
        initial, transition = map(_finite, self.log_chain(params))
        weights = weights * self.sample_weight
        log_p = 0.0
        for n, frames in enumerate(self.pieces()):
            own = densities[frames]
            by_step = self.sites == "steps"
            steps = weights[frames] if by_step else np.ones(len(own))
            potentials = hidden_chain.potentials(self.scheme, steps, own, initial, transition)
            weight = 1.0 if by_step else weights[n]
            log_p = log_p + weight * chain.log_partition(*potentials)
        return -log_p - self.log_prior(params)

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(x_n) of each left-out sequence, or -log p(x_t | frames outside the fold, lags)."""
        check_observed(fold, self.observed)
        if self.sites == "sequences":
            return -HiddenStates(self, params, self.frames.take(fold), prior=False).smoothed.log_z
        left = hidden_states(self, params, fold_weights(self.n_sites, fold))
        log_density = left.log_density[fold]
        return -logsumexp(log_density, b=left.smoothed.gamma[fold], axis=1)

    # starts

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """K-means, seeded by `rng`, of observed frames; sticky transitions. See `em.restarts`.

        Clusters are states in the order that makes their path likeliest under `fixed`. Frames of
        sample weight 0 have no part in it.
        """
        observed = self.weighed_frames.observed
        seed = 0 if rng is None else int(rng.integers(2**31))
        features = self.emission.features(self.weighed_frames)
        labels = np.zeros(len(observed), int)
        labels[observed] = k_means(features[observed], self.n_states, seed)
        labels = in_order(labels, observed, self.frames.starts, self.chain_prior)
        return self.params_of_labels(labels)

    @checked
    def restart_points(self, rng: np.random.Generator, n: int) -> list[np.ndarray]:
        """Where n runs of EM end, from K-means starts of which all but one see half of the data."""
        return climbed(self, rng, check_whole("n", n, 1))

    def params_of_labels(self, labels: np.ndarray) -> np.ndarray:
        """Params with emissions fitted to frames in these states (M,), and sticky transitions."""
        k = self.n_states
        rows = np.vstack([np.ones(k), (1.0 - STAY) / k + STAY * np.eye(k)])
        emission = self.emission.start(self.weighed_frames, labels, k)
        return self.packed(self.chain_prior.rows(rows), emission)


def _finite(logs):
    """Logarithms, of 0 one whose exp is 0: 0 times -inf is nan. Differentiable."""
    return anp.where(logs == -np.inf, IMPOSSIBLE, logs)
