"""A hidden Markov random field with Poisson counts: hidden classes that neighbours tend to share.

log p(x, z) = sum_t s_t log Poisson(x_t; exposure_t rate[z_t]) + coupling sum_edges 1{z_s = z_t}
              - log Z(coupling)
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import autograd.numpy as anp
import numpy as np
from scipy.special import gammaln, logsumexp

from ...checks import MOST, check_choice, check_whole, require
from ...declared import AnyNumber, Check, Is, Params, Real, Rng, Sizes, declared
from ...derivatives import Derivatives
from ...folds import WHOLE, Fold, Folds
from ...folds import weights as fold_weights
from ...inference import graph
from ...inference.chain import STEP
from ...model import ModelDefaults
from ...solvers.inverse import DenseHessian
from ...trials import NoFiniteOptimum
from ...weighting import FactorWeights, Weights, check, drop_latents, keep_latents, site_weights
from .areas import neighbours

EMPTY = 1e-6  # expected sites or counts of a state up to which its rate is not identified


class EmptyState(NoFiniteOptimum):
    """A state of the fit holds no site, or nothing but zeros: its log rate is not identified."""


class Graph(Check):
    """Edges (m, 2) between the sites, whose names and order are the graph's, or else of counts."""

    def bind(self, given: dict, name: str, sizes: Sizes) -> None:
        names = graph.names_of(given[name])
        data = [given[each] for each in ("counts", "exposure", "sample_weight") if each in given]
        data = [values for values in data if isinstance(values, list | tuple) or np.ndim(values)]
        named = [values for values in data if hasattr(getattr(values, "index", None), "equals")]
        if not named:
            return
        pandas = sys.modules["pandas"]
        if names is None:  # sites go by the index of counts, or by their numbers
            if not hasattr(getattr(counts := given["counts"], "index", None), "equals"):
                sizes["n"] = np.size(counts), name, pandas.RangeIndex(np.size(counts))
            return
        index = pandas.Index(names)
        apart = sum(not index.equals(values.index) for values in named)
        several = apart > 1 and not graph.is_networkx(given[name])
        if several or apart and len(named) < len(data):
            remedy = "give names to all or to none, and put the graph in the order of the data"
            raise ValueError(f"data are in another order than the graph's {names[:3]}...: {remedy}")
        sizes["n"] = len(names), name, index

    def __call__(self, name: str, value: Any, sizes: Sizes) -> np.ndarray:
        n_sites, counts, labels = sizes["n"]
        labels = labels if hasattr(labels, "equals") else None  # a list has a method `index`
        edges = graph.check_edges(value, n_sites, labels)
        edges.setflags(write=False)
        names = graph.names_of(value)
        if labels is None and names:
            with suppress(ImportError):
                sizes["n"] = n_sites, counts, require("pandas", extra="tables").Index(names)
        return edges


@declared
@dataclass(frozen=True, eq=False, repr=False)
class HiddenMRF(ModelDefaults):
    """Maximum likelihood in the K log rates, D = K.

    Parameters
    ----------
    counts : (n,) whole numbers >= 0, a site each, in this order or, by name, in that of the graph
    edges : (m, 2), each edge once, none for independent sites; or a networkx graph, or an adjacency
        matrix of 0 and 1, dense, sparse or a frame. Nodes that have names go by the index of
        counts; without one, sites are the nodes or rows in their order.
    coupling : the log-factor of an edge whose ends agree: 2 beta in the paper's notation, whose
        double sum visits each edge twice
    scheme : how weights enter, `weighting.drop_latents` or `keep_latents`
    exposure : > 0, (n,) or one number, what a rate is per, such as the people of an area
    sample_weight : s >= 0, (n,) or one number: a count counts s times in the fit, given the one
        hidden state of its site, not in its held-out loss; edges count once. A site of weight 0 is
        missing, in no fold, its count any, as 0: the fit leaves it out by `scheme`.

    `log_partition`, log Z(coupling), under scheme B log Z(coupling, w), does not depend on the
    rates and is left out of F. States may be permuted without any change of the model.
    `initial_params` are in ascending order and fits and refits continue from there, so that state 0
    is mostly the low one; `numpy.sort` brings any params into that form.

    Raises `graph.TooWide` at once where sums over all states would take too much memory.
    Source: Ghosh et al. (2020), Appendix L.3, Eqs. 4 and 5.
    """

    sites = "nodes"
    counts: Annotated[Any, Real("n", least=0.0, most=MOST, whole=True)] = field(repr=False)
    edges: Annotated[Any, Graph()] = field(repr=False)
    coupling: AnyNumber
    n_states: int = 2
    scheme: Annotated[Callable[..., FactorWeights], Is()] = drop_latents
    exposure: Annotated[Any, Real("", "n", above=0.0)] = field(default=1.0, repr=False)
    sample_weight: Annotated[Any, Real("", "n")] = field(default=1.0, repr=False)

    def __post_init__(self):
        weights = site_weights(self.sample_weight, self.n_sites)
        exposure = np.broadcast_to(self.exposure, self.n_sites)
        self.__dict__.update(exposure=exposure, sample_weight=weights)
        weighed = self.counts[self.observed]
        if not weighed.any():
            zeros = f"all {len(weighed)} counts are 0 where sample_weight is not"
            raise ValueError(f"{zeros}: their rate's logarithm is not finite")
        distinct = len(np.unique(weighed))
        check_whole("n_states", self.n_states, 1, distinct, f" of {distinct} distinct counts")
        graph.check_width(self.n_sites, self.edges, self.n_states)

    @classmethod
    def from_map(
        cls,
        areas: Any,
        counts: str,
        coupling: float,
        n_states: int = 2,
        exposure: Any = 1.0,
        contiguity: str = "queen",
        **settings: Any,
    ) -> "HiddenMRF":
        """Return the model of the areas of a GeoDataFrame, or of a file that geopandas reads.

        counts, exposure: names of columns; or exposure by area, as is sample_weight. contiguity,
        and what is refused: as in `areas.neighbours`.
        """
        if not hasattr(areas, "geometry"):
            from geopandas import read_file

            areas = read_file(areas)
        for name in (counts, exposure) if isinstance(exposure, str) else (counts,):
            check_choice("column", name, list(map(str, getattr(areas, "columns", ()))))
        exposure = areas[exposure] if isinstance(exposure, str) else exposure
        edges = neighbours(areas, contiguity)
        return cls(areas[counts], edges, coupling, n_states, exposure=exposure, **settings)

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
    def derivatives(self) -> "MRFDerivatives":
        """Closed forms in place of autograd's."""
        return MRFDerivatives(self)

    @declared
    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Return log rates at even quantiles of the data, or random ones, a tenth apart or more."""
        levels = (np.arange(self.n_states) + 0.5) / self.n_states
        return self._rates_at(levels if rng is None else np.sort(rng.random(self.n_states)))

    def further_starts(self) -> list[np.ndarray]:
        """Quantiles that crowd at the low end, at the high one, and that reach both."""
        levels = (np.arange(self.n_states) + 0.5) / self.n_states
        wide = np.linspace(0.02, 0.98, self.n_states)
        return [self._rates_at(each) for each in (levels**3, 1.0 - levels[::-1] ** 3, wide)]

    def _rates_at(self, levels):
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

    def factors(self, weights: np.ndarray, scheme: Callable | None = None) -> FactorWeights:
        """Return the weights of all factors at site weights (n,), sample weights included."""
        check(weights, self.n_sites)
        factor = FactorWeights.of(scheme or self.scheme, weights * self.observed, self.edges)
        return factor._replace(observation=factor.observation * self.sample_weight)

    def potentials(
        self, density: np.ndarray, factor: FactorWeights
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return node (n, K) and edge (m, K, K) potentials of log densities (n, K)."""
        node = factor.observation[:, None] * density
        return node, self.coupling * factor.edge[:, None, None] * np.eye(self.n_states)

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F = -log p(x; params, weights), up to log Z(coupling, w)."""
        potentials = self.potentials(self.log_densities(params), self.factors(weights))
        return -graph.log_partition(*potentials, self.elimination)

    @declared
    def log_partition(self, weights: Weights | None = None) -> float:
        """log Z(coupling, w) of the states, by default with all weights 1; F + log Z = -log p(x).

        What F leaves out: to compare models of several couplings on all data.
        """
        factor = self.factors(np.ones(self.n_sites) if weights is None else weights)
        potentials = self.potentials(np.zeros((self.n_sites, self.n_states)), factor)
        return graph.log_partition(*potentials, self.elimination)

    @declared
    def posterior(self, params: Params, weights: Weights | None = None) -> graph.GraphPosterior:
        """Return p(z | x; params, weights) of all sites, by default with all weights 1."""
        factor = self.factors(np.ones(self.n_sites) if weights is None else weights)
        potentials = self.potentials(self.log_densities(params), factor)
        return graph.GraphPosterior(*potentials, self.elimination)

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """-log p(x_t | x outside the fold; params), on the full graph whatever the scheme.

        A site's own latent state and its edges are then there, as when the count of a tract on the
        map is predicted from its neighbours'. Under scheme B this differs from log p(x; w) -
        log p(x; w_o), which scores a tract together with its place on the map.
        """
        density = self.log_densities(params)
        outside = self.factors(fold_weights(self.n_sites, fold), keep_latents)
        posterior = graph.GraphPosterior(*self.potentials(density, outside), self.elimination)
        return -logsumexp(density[fold], b=posterior.marginals_at(fold), axis=1)

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise EmptyState where a state of the fit holds no site, or only zeros."""
        self.check_refits(params[None], WHOLE)

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """The same of the first such fold, of params (n_folds, K)."""
        for row, (point, fold) in enumerate(zip(params, folds, strict=True)):
            kept = fold_weights(self.n_sites, fold)
            gamma, _ = self.posterior(point, kept).marginals()
            weighed = gamma.T * (self.sample_weight * kept)
            sites = weighed.sum(axis=1)
            total = weighed @ self.counts
            for k in np.flatnonzero(np.minimum(sites, total) <= EMPTY):
                of = f"without {folds.name(row)}" if len(fold) else "of the fit"
                raise EmptyState(
                    f"at coupling {self.coupling:g}, state {k} {of} holds {sites[k]:.2g} "
                    f"expected sites with {total[k]:.2g} counts: its log rate {point[k]:.3g} is "
                    "not identified. Lower the coupling or the number of states"
                )


class MRFDerivatives(Derivatives):
    """Closed forms of a `HiddenMRF`.

    dF/dtheta_k = sum_t s_t P(z_t = k) (e_t rate_k - x_t), s_t the weight of a count, its sample
    weight included, e_t the exposure; curvatures are the slopes of these, as imaginary parts.
    """

    chord_rate = 0.5
    fresh = 1.0  # spares every other fold a Hessian, which costs several gradients

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams (K,)); of complex params, too."""
        model = self.model
        factor = model.factors(weights)
        node, edge = model.potentials(model.log_densities.unchecked(model, params), factor)
        log_z, sums = graph.collect(node, edge, model.elimination)
        gamma, _ = graph.distribute(sums, model.elimination)
        expected = np.exp(params) * ((factor.observation * model.exposure) @ gamma)
        return -float(log_z.real), expected - (factor.observation * model.counts) @ gamma

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        """d2F/dparams2 (K, K)."""
        steps = params + 1j * STEP * np.eye(len(params))
        rows = [self.value_and_gradient(step, weights)[1].imag for step in steps]
        return DenseHessian(np.array(rows) / STEP)
