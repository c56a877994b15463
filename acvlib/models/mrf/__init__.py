"""A hidden Markov random field with Poisson counts: hidden classes that neighbours tend to share.

log p(x, z) = sum_t s_t log Poisson(x_t; exposure_t rate[z_t]) + coupling sum_edges 1{z_s = z_t}
              - log Z(coupling)
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Annotated, Any

import autograd.numpy as anp
import numpy as np
from scipy.special import gammaln, logsumexp

from ...checks import LARGEST, MOST, check_kind, check_whole, in_order_of, read_only, real_array
from ...declared import AnyNumber, Is, Params, Rng, declared
from ...folds import Fold
from ...folds import weights as fold_weights
from ...inference import graph
from ...model import ModelDefaults
from ...trials import NoFiniteOptimum
from ...weighting import FactorWeights, Weights, check, drop_latents, keep_latents, site_weights
from .areas import column_of, neighbours, read_features, shapes_of
from .derivatives import MRFDerivatives

EMPTY = 1e-6  # expected sites or counts of a state up to which its rate is not identified


class Islands(UserWarning):
    """Some areas of a map have no neighbours, so that their states are independent."""


class EmptyState(NoFiniteOptimum):
    """A state of the fit holds no site, or nothing but zeros: its log rate is not identified."""


@declared
@dataclass(frozen=True, eq=False, repr=False)
class HiddenMRF(ModelDefaults):
    """Maximum likelihood in the K log rates, D = K.

    Parameters
    ----------
    counts : (n,) whole numbers >= 0; by node, a dict or a Series, of a networkx graph
    edges : (m, 2), each edge once, none for independent sites; or a networkx graph, whose nodes in
        their order are the sites; or an adjacency matrix of 0 and 1, dense or sparse
    coupling : the log-factor of an edge whose ends agree: 2 beta in the paper's notation, whose
        double sum visits each edge twice
    scheme : how weights enter, `weighting.drop_latents` or `keep_latents`
    exposure : (n,) > 0, what a rate is per, such as the people of an area; 1 unless told
    sample_weight : s >= 0, (n,) or one number: a count counts s times in the fit, given the one
        hidden state of its site, not in its held-out loss; edges count once. A site of weight 0 is
        missing, in no fold: the fit leaves it out by `scheme`.

    `log_partition`, log Z(coupling), under scheme B log Z(coupling, w), does not depend on the
    rates and is left out of F. States may be permuted without any change of the model.
    `initial_params` are in ascending order and fits and refits continue from there, so that state 0
    stays the low one; `numpy.sort` brings any params into that form.

    Raises `graph.TooWide` at once where sums over all states would take too much memory.
    Source: Ghosh et al. (2020), Appendix L.3, Eqs. 4 and 5.
    """

    sites = "nodes"
    counts: np.ndarray = field(repr=False)
    edges: np.ndarray = field(repr=False)
    coupling: AnyNumber
    n_states: int = 2
    scheme: Annotated[Callable[..., FactorWeights], Is()] = drop_latents
    exposure: Any = field(default=None, repr=False)
    sample_weight: Any = field(default=1.0, repr=False)

    def __post_init__(self):
        data = {name: getattr(self, name) for name in ("counts", "exposure", "sample_weight")}
        everywhere = {k for k, v in data.items() if v is None or isinstance(v, Real)} - {"counts"}
        by_site = {k: v for k, v in data.items() if k not in everywhere}
        edges, by_site = graph.in_one_order(self.edges, by_site)
        counts, exposure, weights = (data | by_site).values()
        counts = real_array("counts", counts, finite=False)
        if counts.ndim != 1 or not counts.size:
            raise ValueError(f"counts must be 1-d, one count a site; got shape {counts.shape}")
        whole = (counts >= 0) & (counts <= MOST) & (counts % 1 == 0)
        _refuse("count", counts, ~whole, f"counts must be whole numbers from 0 to {MOST}")
        n_sites = len(counts)
        exposure = np.ones(n_sites) if exposure is None else exposure
        exposure = real_array("exposure", exposure, finite=False)
        if exposure.shape != (n_sites,):
            raise ValueError(f"exposure {exposure.shape} must be ({n_sites},), one number a site")
        usable = (exposure > 0) & (exposure <= LARGEST)
        remedy = "must be > 0 and finite: drop the site, or merge it with a neighbour"
        _refuse("exposure", exposure, ~usable, remedy)
        weights = site_weights(weights, n_sites)
        weighed = counts[weights > 0.0]
        if not weighed.any():
            zeros = f"all {len(weighed)} counts are 0 where sample_weight is not"
            raise ValueError(f"{zeros}: their rate's logarithm is not finite")
        distinct = len(np.unique(weighed))
        check_whole("n_states", self.n_states, 1, distinct, f" of {distinct} distinct counts")
        edges = graph.check_edges(edges, n_sites)
        graph.check_width(n_sites, edges, self.n_states)
        self.__dict__.update(
            counts=read_only(counts),
            edges=read_only(edges, int),
            exposure=read_only(exposure),
            sample_weight=weights,
        )

    @classmethod
    def from_map(
        cls,
        areas: Any,
        counts: str,
        coupling: float,
        n_states: int = 2,
        exposure: Any = None,
        contiguity: str = "queen",
        **settings: Any,
    ) -> "HiddenMRF":
        """Return the model of the areas of a map, a GeoDataFrame or the path of a GeoJSON file.

        Sites are its rows. counts, exposure: names of columns; or exposure (n,), by name where it
        is a Series beside a frame, as is sample_weight. contiguity: "queen", neighbours share a
        point of their borders; "rook", a stretch. Coordinates may be of any kind; what is apart by
        a millionth of the size of the smaller area touches. Warns of areas without
        neighbours; other settings are those of the model.
        Raises ValueError naming a row without a number or a polygon, and two that are the same.
        """
        check_kind("counts", counts, str)
        features = read_features(areas)
        edges = neighbours(shapes_of(features), contiguity)
        alone = np.setdiff1d(np.arange(len(features)), edges)
        if alone.size:
            islands = f"{alone.size} areas have no neighbours, such as those of rows {alone[:5]}"
            remedy = "true islands, or outlines that were simplified one by one?"
            warnings.warn(f"{islands}: {remedy}", Islands, stacklevel=2)
        if isinstance(exposure, str):
            exposure = column_of(features, exposure)
        settings["exposure"] = exposure
        for name in settings.keys() & {"exposure", "sample_weight"}:
            aligned = in_order_of(getattr(areas, "index", None), name, settings[name])
            settings[name] = aligned.to_numpy() if hasattr(aligned, "to_numpy") else aligned
        return cls(column_of(features, counts), edges, coupling, n_states, **settings)

    @property
    def n_sites(self) -> int:
        """The number of counts."""
        return len(self.counts)

    @property
    def n_params(self) -> int:
        """K."""
        return self.n_states

    @cached_property
    def observed(self) -> np.ndarray:
        """(n,) False where the sample weight is 0."""
        return self.sample_weight > 0.0

    @cached_property
    def elimination(self) -> graph.EliminationOrder:
        """The order in which sites are summed out: one for all folds, which only change weights."""
        return graph.eliminate(self.n_sites, self.edges, self.n_states)

    @property
    def derivatives(self) -> MRFDerivatives:
        """Closed forms in place of autograd's."""
        return MRFDerivatives(self)

    @declared
    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Return log rates at evenly spaced quantiles of the data, a tenth apart or more."""
        levels = (np.arange(self.n_states) + 0.5) / self.n_states
        rates = (self.counts / self.exposure)[self.observed]
        start = np.log(np.quantile(rates, levels) + 0.5 / self.exposure[self.observed].mean())
        steps = 0.1 * np.arange(self.n_states)
        return np.maximum.accumulate(start - steps) + steps

    @declared
    def log_densities(self, params: Params) -> np.ndarray:
        """Return log p(x_t | z_t = k), (n, K); differentiable."""
        counts = self.counts[:, None]
        exposure = self.exposure[:, None]
        at_rate_one = counts * np.log(exposure) - gammaln(counts + 1.0)
        return counts * params - exposure * anp.exp(params) + at_rate_one

    def _factors(self, weights, scheme=None):
        """The weights of all factors at site weights (n,), sample weights included."""
        check(weights, self.n_sites)
        factor = (scheme or self.scheme)(weights * self.observed, self.edges)
        return factor._replace(observation=factor.observation * self.sample_weight)

    def potentials(
        self, density: np.ndarray, factor: FactorWeights
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return node (n, K) and edge (m, K, K) potentials of log densities (n, K)."""
        node = factor.observation[:, None] * density
        edge = factor.edge[:, None, None] * np.eye(self.n_states)
        return node, self.coupling * edge

    def weighted_potentials(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `potentials` at weights (n,), and the weights (n,) of the observations."""
        factor = self._factors(weights)
        node, edge = self.potentials(self.log_densities(params), factor)
        return node, edge, factor.observation

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F = -log p(x; params, weights), up to log Z(coupling, w)."""
        node, edge, _ = self.weighted_potentials(params, weights)
        return -graph.log_partition(node, edge, self.elimination)

    @declared
    def log_partition(self, weights: Weights | None = None) -> float:
        """log Z(coupling, w) of the states, by default with all weights 1; F + log Z = -log p(x).

        What F leaves out: to compare models of several couplings on all data.
        """
        factor = self._factors(np.ones(self.n_sites) if weights is None else weights)
        node, edge = self.potentials(np.zeros((self.n_sites, self.n_states)), factor)
        return float(graph.log_partition(node, edge, self.elimination))

    @declared
    def posterior(self, params: Params, weights: Weights | None = None) -> graph.GraphPosterior:
        """Return p(z | x; params, weights) of all sites, by default with all weights 1."""
        weights = np.ones(self.n_sites) if weights is None else weights
        node, edge, _ = self.weighted_potentials(params, weights)
        return graph.GraphPosterior(node, edge, self.elimination)

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """-log p(x_t | x outside the fold; params), on the full graph whatever the scheme.

        A site's own latent state and its edges are then there, as when the count of a tract on the
        map is predicted from its neighbours'. Under scheme B this differs from log p(x; w) -
        log p(x; w_o), which scores a tract together with its place on the map.
        """
        density = self.log_densities(params)
        outside = self._factors(fold_weights(self.n_sites, fold), keep_latents)
        node, edge = self.potentials(density, outside)
        gamma = graph.GraphPosterior(node, edge, self.elimination).marginals_at(fold)
        return -logsumexp(density[fold], b=gamma, axis=1)

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise EmptyState where a state of the fit holds no site, or only zeros."""
        gamma, _ = self.posterior(params).marginals()
        weighed = (gamma.T * self.sample_weight).T
        sites = weighed.sum(axis=0)
        total = weighed.T @ self.counts
        for k in np.flatnonzero(np.minimum(sites, total) <= EMPTY):
            raise EmptyState(
                f"at coupling {self.coupling:g}, state {k} of the fit holds {sites[k]:.2g} "
                f"expected sites with {total[k]:.2g} counts: its log rate {params[k]:.3g} is not "
                "identified. Lower the coupling or the number of states"
            )


def _refuse(name, values, bad, rule):
    for site in np.flatnonzero(bad):
        raise ValueError(f"{name} {values[site]} of site {site}: {rule}")
