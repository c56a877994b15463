"""Hidden Markov models of one or many sequences, whole sequences or single time steps left out.

z_1 ~ initial;  z_t | z_t-1 ~ transition;  x_t | z_t = k, x_t-1 ... x_t-p ~ emission k
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ... import weighting
from ...checks import check_choice, check_kind, check_whole, real_number
from ...folds import weights as fold_weights
from ...inference import chain, hidden_chain
from ...model import ModelDefaults, checked, own_copy
from ...weighting import keep_latents
from .derivatives import HMMDerivatives
from .em import climbed
from .emissions import Emission, Gaussian
from .emissions.base import k_means
from .emissions.priors import Prior
from .posterior import HiddenStates, HMMParams, Parameters, hidden_states
from .prediction import Predictions
from .sequences import Frames, check_channels, check_observed, make_frames, read_sequences
from .simplex import Dirichlet, log_probabilities

SITES = ("sequences", "steps")
STAY = 0.9  # share of a start's transition probability that stays in its state


@dataclass(frozen=True, repr=False)
class HMM(Parameters, Predictions, ModelDefaults):
    """Maximise the posterior density of a K-state HMM.

    Params (D,) are log ratios to the last state of the initial and of each transition row, then the
    emission's parameters. States may be permuted. Sites and frames are counted without `context`.

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
        given = [sequence[:, : self.n_channels] for sequence in self.sequences]
        check_channels(given)
        object.__setattr__(self, "emission", self.emission.settled(given))
        object.__setattr__(self, "fixed", self.chain_prior.fixed)
        self._weigh()
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
        object.__setattr__(self, "concentration", self._checked_concentration())

    def _checked_concentration(self):
        given = own_copy(self.concentration, name="concentration")
        if given.ndim == 0:
            return real_number("concentration", self.concentration, least=1.0)
        rows = self.n_states + 1
        usable = (given >= 1.0) & (given < np.inf)
        if given.shape not in ((rows, 1), (rows, self.n_states)) or not usable.all():
            shapes = f"one number, ({rows}, 1) or ({rows}, {self.n_states})"
            raise ValueError(f"concentration {given.tolist()} must be >= 1 and finite: {shapes}")
        return given

    def _weigh(self):
        weights = weighting.site_weights(self.sample_weight, self.n_sites)
        if self.scheme is not keep_latents and (weights != 1.0).any():
            raise ValueError(
                "sample_weight needs scheme keep_latents: under others edges count s^2"
            )
        object.__setattr__(self, "sample_weight", weights)

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

    @property
    def n_sites(self) -> int:
        """Sequences or frames."""
        return len(self.sequences) if self.sites == "sequences" else len(self.frames.x)

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
        return HMMDerivatives(self) if self.scheme is keep_latents else None

    @checked
    def log_densities(self, params: np.ndarray) -> np.ndarray:
        """log p(x_t | z_t = k, lags), (M, K), zero where missing; differentiable."""
        _, states = self.split(params)
        return self.emission.log_densities(states, self.frames)

    @checked
    def log_chain(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(log initial (K,), log transition (K, K)); differentiable."""
        rows = self._log_rows(params)
        return rows[0], rows[1:]

    @cached_property
    def chain_prior(self) -> Dirichlet:
        """The prior of initial and transition probabilities."""
        shape = (self.n_states + 1, self.n_states)
        return Dirichlet.fixing(self.fixed, shape, self.concentration)

    @cached_property
    def emission_prior(self) -> Prior:
        """The `Prior` of the emission's parameters."""
        return self.emission.prior(self.n_states, self.n_channels)

    @checked
    def log_prior(self, params: np.ndarray) -> float:
        """log p(initial, transition, emission) up to a constant; differentiable."""
        return self._log_prior(params)

    def _log_prior(self, params):
        emission = self.whole(params)[self.n_chain :]
        of_emission = self.emission_prior.minus_log(emission)
        return self.chain_prior.log_density(self._log_rows(params)) - of_emission

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise `NoFiniteOptimum` where a flat prior lets a probability run to 0."""
        if self.held is not None:
            return
        hidden = HiddenStates(self, params, self.frames, prior=False)
        laws = [(self.chain_prior, hidden.counts.sum(axis=1), hidden.p)]
        for law, places in self.emission_prior.parts:
            if isinstance(law, Dirichlet):
                p = np.exp(log_probabilities(params[self.n_chain + places]))
                laws.append((law, hidden.mass.sum(axis=0), p))
        for law, totals, p in laws:
            law.check_optimum(totals, p)

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F = -log p(x; params, weights) - log p(params); differentiable."""
        _, states = self.split(params)
        densities = self.emission.log_densities(states, self.frames)
        rows = self._log_rows(params)
        weights = weights * self.sample_weight
        log_p = 0.0
        for n, frames in enumerate(self.pieces()):
            own = densities[frames]
            by_step = self.sites == "steps"
            steps = weights[frames] if by_step else np.ones(len(own))
            potentials = hidden_chain.potentials(self.scheme, steps, own, rows[0], rows[1:])
            weight = 1.0 if by_step else weights[n]
            log_p = log_p + weight * chain.log_partition(*potentials)
        return -log_p - self._log_prior(params)

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

        Frames of sample weight 0 have no part in it.
        """
        observed = self.weighed_frames.observed
        seed = 0 if rng is None else int(rng.integers(2**31))
        features = self.emission.features(self.weighed_frames)
        labels = np.zeros(len(observed), int)
        labels[observed] = k_means(features[observed], self.n_states, seed)
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
        return self._packed(self.chain_prior.rows(rows), emission)
