"""Hidden Markov models of one or many sequences, whole sequences or single time steps left out.

z_1 ~ initial;  z_t | z_t-1 ~ transition;  x_t | z_t = k, x_t-1 ... x_t-p ~ emission k
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import autograd.numpy as anp
import numpy as np

from ... import weighting
from ...checks import check_whole, in_order_of, index_of, read_only, real_array
from ...declared import Count, Is, OneOf, Params, Rng, Whole, declared
from ...folds import Fold, Folds
from ...inference import chain
from ...model import ModelDefaults
from ...weighting import Weights
from .derivatives import HMMDerivatives
from .em import climbed, clustered, k_means, nearest, with_numbers_of
from .emissions import Emission, Gaussian
from .frames import Frames, check_channels, make_frames, read_known_states, read_sequences
from .parameters import HMMParams, Parameters
from .posterior import (
    ImpossibleSequence,
    Predictions,
    check_explained,
    check_known_states,
    heldout_loss,
    hidden_states,
    warn_of_lags,
)

IMPOSSIBLE = -1e9  # the log of a 0, where sums are to stay finite
STAY = 0.9  # share of a start's transition probability that stays in its state


@declared
@dataclass(frozen=True, eq=False, repr=False)
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
        "steps" leaves out frames (Eq. 4): a left-out frame loses its own term, and the p frames
        after it still look back at it, in exact and approximate folds alike. By default steps of
        a single sequence, and sequences where there are more.
    concentration: of Dirichlet priors on rows of probabilities; 1 is flat: maximum likelihood. One
        number, or for the initial and each transition row (K + 1, 1), or for each entry (K + 1, K).
    fixed: None, or (K + 1, K) initial and transition probabilities that stay as they are, 0 for
        what cannot happen, nan where free.
    context: how many frames of each sequence are only looked back at, p by default; a common value
        makes orders comparable.
    sample_weight: s >= 0, (n_sites,) or one number: a site counts s times in the fit, not in its
        held-out loss; one of weight 0 is missing, in no fold, but looked back at.
    held: None, or values of the first parameters, which are then not free any more: see `hold`.
    dense_limit: parameters up to which Hessians are formed, which is faster than many products.
    known_states: None, or states 0 ... K - 1, nan or masked where unknown: (T_n,), or None, for
        each sequence, or one array of all frames end to end. F has log p(x weighted, z known): a
        frame left out, or of weight 0, keeps its state, a sequence does not. Losses are -log p(x_n,
        known states) of sequences, -log p(x_t | other frames, all known states) of steps.

    Raises ValueError for unusable sequences or settings, and for too few frames for K states.

    Source: Ghosh et al. (2020).
    """

    sequences: Sequence[np.ndarray] = field(repr=False)
    n_states: Count
    emission: Annotated[Emission, Is()] = field(default_factory=Gaussian)
    sites: Annotated[str, OneOf("sequences", "steps")] | None = None
    concentration: Any = 1.1
    context: Annotated[int, Whole(0)] | None = None
    sample_weight: Any = field(default=1.0, repr=False)
    fixed: Any = field(default=None, repr=False)
    held: Any = field(default=None, repr=False)
    dense_limit: Annotated[int, Whole(0)] = field(default=300, repr=False)
    known_states: Any = field(default=None, repr=False)

    def __post_init__(self):
        order = self.emission.order
        context = order if self.context is None else check_whole("context", self.context, order)
        sequences = read_sequences(self.sequences, context)
        sites = self.sites or ("steps" if len(sequences) == 1 else "sequences")
        weights = self.sample_weight
        index = sequences.names_of_rows(context) if sites == "steps" else sequences.names
        index = index_of(weights) if index is None else index
        weights = in_order_of(index, "sample_weight", weights)
        self.__dict__.update(context=context, sequences=sequences, sites=sites, index=index)
        weights = weighting.site_weights(weights, self.n_sites)
        self.__dict__.update(sample_weight=weights, emission=self._settled(weights))
        law = self.chain_prior
        known = read_known_states(self.known_states, sequences, self.n_states)
        self.__dict__.update(concentration=law.concentration, fixed=law.fixed, known_states=known)
        if sites == "steps":
            warn_of_lags(self.frames, weights, order)
        check_known_states(self)
        seen = int(self.frames.observed.sum())
        if seen <= self.n_states:
            few = f"{seen} observed frames"
            raise ValueError(f"{few} cannot support {self.n_states} states: lower n_states")
        if self.held is not None:
            held = real_array("held", self.held)
            if held.shape != (self.n_nuisance,):
                raise ValueError(f"held {held.shape}: must be ({self.n_nuisance},): see hold()")
            self.__dict__.update(held=read_only(held))

    def _settled(self, weights):
        """The emission with what it takes from frames that have a sample weight."""
        lengths = [len(x) for x in self.sequences]
        if self.sites == "sequences":
            of_frames = np.repeat(weights, lengths)
        else:
            parts = np.split(weights, np.cumsum(np.array(lengths) - self.context)[:-1])
            of_frames = np.concatenate([np.pad(w, (self.context, 0), "edge") for w in parts])
        every = np.concatenate(self.sequences)[of_frames > 0.0]
        x, inputs = np.split(every, [self.n_channels], axis=1)
        check_channels(x)
        columns = self.sequences.columns and self.sequences.columns[: self.n_channels]
        emission = self.emission.of_columns(columns, self.n_channels)
        return emission.settled(x, inputs, of_frames[of_frames > 0.0])

    # sites

    @cached_property
    def frames(self) -> Frames:
        """The `Frames` that are predicted; states of sequences of weight 0 are unknown."""
        frames = make_frames(self.sequences, self.emission, self.context)
        if self.known_states is None:
            return frames
        states = np.concatenate([z[self.context :] for z in self.labels])
        if self.sites == "sequences":
            states[np.repeat(self.sample_weight == 0.0, np.diff(frames.starts))] = -1
        return frames._replace(states=states) if (states >= 0).any() else frames

    @property
    def labels(self) -> list[np.ndarray]:
        """Known states (T_n,), -1 where unknown: models that are compared have the same."""
        known = self.known_states or [np.full(len(x), np.nan) for x in self.sequences]
        return [np.nan_to_num(z, nan=-1.0).astype(int) for z in known]

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
        """(n_sites,) False where a sequence without known states, a frame or a lag is missing."""
        seen = self.frames.observed
        if self.sites == "sequences":
            if self.frames.states is not None:
                seen = seen | (self.frames.states >= 0)
            seen = np.add.reduceat(seen, self.frames.starts[:-1]) > 0
        return seen & (self.sample_weight > 0.0)

    def pieces(self) -> list[slice]:
        """A slice of the frames for each sequence."""
        return [slice(first, stop) for first, stop in pairwise(self.frames.starts)]

    # density

    @cached_property
    def derivatives(self) -> HMMDerivatives:
        """By compiled smoothing."""
        check_explained(self)
        return HMMDerivatives(self)

    @declared
    def log_densities(self, params: Params) -> np.ndarray:
        """log p(x_t | z_t = k, lags), (M, K), zero where missing; differentiable."""
        _, rows = self.split(params)
        densities = self.emission.log_densities(rows, self.frames)
        return anp.where(self.frames.observed[:, None], densities, 0.0)

    @declared
    def log_chain(self, params: Params) -> tuple[np.ndarray, np.ndarray]:
        """(log initial (K,), log transition (K, K)); differentiable."""
        rows = self.chain_prior.log_p(self.split(params)[0])
        return rows[0], rows[1:]

    @declared
    def log_prior(self, params: Params) -> float:
        """log p(initial, transition, emission) up to a constant; differentiable."""
        weights, rows = self.split(params)
        of_chain, _ = self.chain_prior.minus_log_prior(self.chain_prior.log_p(weights))
        return -of_chain - self.emission.minus_log_prior(rows)[0]

    def default_priors(self, params: np.ndarray) -> dict:
        """See `ModelDefaults`; those of the emission."""
        _, rows = self.split(params)
        _, whole = self.emission.minus_log_prior(rows)
        found = {}
        for name, (law, flat, other) in self.emission.without_defaults().items():
            slopes = whole - other.minus_log_prior(rows)[1]
            gradient = self.join(np.zeros(self.chain_prior.shape), slopes)
            found[f"{name} = {law}"] = gradient, f"{name}={flat}"
        return found

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F = -log p(x; params, weights) - log p(params); differentiable."""
        densities = _finite(self.log_densities(params))
        initial, transition = map(_finite, self.log_chain(params))
        weights = weights * self.sample_weight
        by_step = self.sites == "steps"
        nodes = weights[:, None] * densities if by_step else densities
        if self.frames.states is not None:
            nodes = anp.where(self.frames.ruled_out(self.n_states), IMPOSSIBLE, nodes)
        log_p = 0.0
        for n, frames in enumerate(self.pieces()):
            node = nodes[frames]
            node = anp.concatenate([node[:1] + initial, node[1:]])
            edge = np.ones((len(node) - 1, 1, 1)) * transition
            log_p = log_p + (1.0 if by_step else weights[n]) * chain.log_partition(node, edge)
        return -log_p - self.log_prior(params)

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """-log p(x_n) of each left-out sequence, or -log p(x_t | frames outside the fold, lags)."""
        Folds([fold]).omitted.check_observed(self.observed)
        return heldout_loss(self, params, fold)

    # starts

    @declared
    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """K-means of observed frames that weigh, ordered by `em.in_order`; sticky transitions."""
        rng = np.random.default_rng(0) if rng is None else rng
        return clustered(self, rng, k_means)

    @declared
    def starting_points(self, rng: Rng, n: Count) -> list[np.ndarray]:
        """One by K-means; the states of others are frames nearest to some drawn at random."""
        starts = [self.initial_params(rng)]
        return [*starts, *(clustered(self, rng, nearest) for _ in range(n - 1))]

    @declared
    def restart_points(self, rng: Rng, n: Count) -> list[np.ndarray]:
        """Where n runs of EM end, from `starting_points`."""
        return climbed(self, self.starting_points(rng, n))

    @property
    def restarts_climbed(self) -> bool:
        """Whether EM climbs from each, which a network lacks."""
        return self.held is None and self.emission.maximise is not None

    def matched(self, params: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The params (D,) of the same law, its states numbered as those next to them in others.

        Where something is held, or fixed in emissions, or states are known, these keep their
        numbers; `fixed` stays.
        """
        inner = [getattr(part, "component", part) for _, part in self.emission.parts]
        kept = self.kept_in_states
        is_fixed = any(getattr(part, "fixed", None) is not None for part in inner)
        is_free = self.held is None and self.frames.states is None
        if not is_free or is_fixed or (kept != kept[0]).any():
            return params
        return with_numbers_of(self, params, others)

    def params_of_labels(self, labels: np.ndarray) -> np.ndarray:
        """Params with emissions fitted to frames in these states (M,), and sticky transitions."""
        k = self.n_states
        rows = np.vstack([np.ones(k), (1.0 - STAY) / k + STAY * np.eye(k)])
        emission = self.emission.start(self.weighed_frames, labels, k)
        return self.packed(self.chain_prior.rows(rows), emission)


def _finite(logs):
    """Logarithms, of 0 one whose exp is 0: 0 times -inf is nan. Differentiable."""
    return anp.where(logs == -np.inf, IMPOSSIBLE, logs)
