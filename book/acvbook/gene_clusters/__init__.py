"""Genes clustered by their regressions on time: two stages, one estimating equation.

    r(theta, w) = [dKL_g / d(regression of gene g), each g;  dF / d(clustering)] = 0

KL is stage one (`regression`), F stage two (`mixture`). The weights on times enter KL alone, and
reach F only through the regressions; no function of theta has r as its gradient.
Source: Giordano et al. (2019), Section 6 and Appendix B.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from acvlib.checks import read_only, require
from acvlib.model import ModelDefaults

from .derivatives import GenomicsDerivatives, check_clusters
from .mixture import GeneMixture, Minimum, Positions, minimise
from .regression import GeneRegression, Regression

SEEDS = 50  # k-means starts


class GenomicsParams(NamedTuple):
    """Regressions, see `Regression`; centroids (K, d) and shares (K,) of the clusters."""

    coefficients: np.ndarray
    cholesky: np.ndarray
    precision: np.ndarray
    centroids: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True)
class GeneClusters(ModelDefaults):
    """Clusters of genes by their curves; a site is a time, all its replicates included.

    Parameters
    ----------
    expression : (n_genes, n_times, n_replicates)
    basis : (n_times, p)
    regularisation : rho, added to the variances of the coefficients before they are clustered
    centroid_precision : of the centroids' prior
    concentration : of the shares' Dirichlet prior, above 1 to keep clusters from emptying

    When it is scored a gene belongs to clusters by its regression on all times, as in the paper's
    figures. D = n_genes q + K p - 1 with q = p + p (p + 1) / 2 + 1.
    """

    expression: np.ndarray = field(repr=False)
    basis: np.ndarray = field(repr=False)
    n_clusters: int = 18
    regularisation: float = 0.1
    centroid_precision: float = 1e-5
    concentration: float = 1.0

    def __post_init__(self):
        for name in ("expression", "basis"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def n_sites(self) -> int:
        return self.expression.shape[1]

    @cached_property
    def stage_one(self) -> GeneRegression:
        """The regressions of these genes."""
        return GeneRegression(self.basis, self.expression)

    @cached_property
    def stage_two(self) -> GeneMixture:
        """The mixture, in the d coordinates of fitted curves less their means over time."""
        _, scale, turn = self._demeaned
        return GeneMixture(
            transform=scale[:, None] * turn,
            n_clusters=self.n_clusters,
            regularisation=self.regularisation,
            centroid_precision=self.centroid_precision,
            concentration=self.concentration,
        )

    @property
    def curves(self) -> np.ndarray:
        """(n_times, d): from clustered coordinates to curves with mean zero."""
        return self._demeaned[0]

    @property
    def derivatives(self) -> GenomicsDerivatives:
        """The Jacobian in blocks, refits stage by stage."""
        return GenomicsDerivatives(self)

    def split(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(coordinates of the genes (n_genes, q), parameters of the clustering)."""
        cut = len(self.expression) * self.stage_one.size
        return params[:cut].reshape(len(self.expression), -1), params[cut:]

    def unpack(self, params: np.ndarray) -> GenomicsParams:
        """Named arrays of params (D,)."""
        genes, clusters = self.split(params)
        centroids, log_shares = self.stage_two.unpack(clusters)
        return GenomicsParams(*self.stage_one.unpack(genes), centroids, np.exp(log_shares))

    def pack(self, named: GenomicsParams) -> np.ndarray:
        """Params (D,) of named arrays."""
        *regression, centroids, shares = named
        genes = self.stage_one.pack(Regression(*regression))
        return np.concatenate([genes.ravel(), self.stage_two.pack(centroids, np.log(shares))])

    def positions(self, genes: np.ndarray) -> Positions:
        """What is clustered of genes (n_genes, q); differentiable."""
        return self.stage_two.positions(self.stage_one.unpack(genes))

    def residual(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """r(params, weights), (D,)."""
        genes, clusters = self.split(params)
        regressions = self.stage_one.residual(genes, weights)
        clustering = self.stage_two.gradient(clusters, self.positions(genes))
        return anp.concatenate([regressions.ravel(), clustering])

    def solve(self, start: np.ndarray, weights: np.ndarray) -> Minimum:
        """Solve r(., weights) = 0: the regressions in closed form, the clustering from `start`."""
        regression = self.stage_one.solve(weights)
        _, clusters = self.split(start)
        found = minimise(self.stage_two, clusters, self.stage_two.positions(regression))
        genes = self.stage_one.pack(regression)
        return found._replace(params=np.concatenate([genes.ravel(), found.params]))

    def initial_params(
        self, rng: np.random.Generator | None = None, weights: np.ndarray | None = None
    ) -> np.ndarray:
        """Stage one's solution, and the best of 50 k-means clusterings of it; rng seeds k-means."""
        cluster = require("sklearn.cluster", "sklearn")
        regression = self.stage_one.solve(np.ones(self.n_sites) if weights is None else weights)
        seed = int(np.random.default_rng(0 if rng is None else rng).integers(2**31))
        k_means = cluster.KMeans(self.n_clusters, n_init=SEEDS, random_state=seed)
        k_means.fit(self.stage_two.positions(regression).centre)
        shares = np.bincount(k_means.labels_) / len(self.expression)
        return self.pack(GenomicsParams(*regression, k_means.cluster_centers_, shares))

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Mean absolute error of each time, over genes and replicates: the paper's Figure 3."""
        return np.abs(self.errors(params)[:, fold]).mean(axis=(0, 2))

    def errors(self, params: np.ndarray) -> np.ndarray:
        """Expression less its gene's mean less the mean curve of its clusters."""
        _, clusters = self.split(params)
        return self._errors(self.expression, self._own_positions, clusters)

    def errors_on(self, expression: np.ndarray, params: np.ndarray) -> np.ndarray:
        """The same of other genes (n, n_times, n_replicates), regressed on all times."""
        expression = np.asarray(expression, float)
        regression = GeneRegression(self.basis, expression).solve(np.ones(self.n_sites))
        _, clusters = self.split(params)
        return self._errors(expression, self.stage_two.positions(regression), clusters)

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise EmptyCluster where a cluster holds less than half a gene."""
        check_clusters(self, params)

    @cached_property
    def _demeaned(self):
        """Singular vectors and values of the basis less its mean; one is zero, the constant's."""
        centred = self.basis - self.basis.mean(axis=0)
        turned, scale, back = np.linalg.svd(centred, full_matrices=False)
        kept = scale > 1e-8 * scale[0]
        return turned[:, kept], scale[kept], back[kept]

    @cached_property
    def _own_positions(self):
        return self.stage_two.positions(self.stage_one.solve(np.ones(self.n_sites)))

    def _errors(self, expression, positions, clusters):
        centroids, _ = self.stage_two.unpack(clusters)
        members = self.stage_two.memberships(clusters, positions)
        predicted = members @ (centroids @ self.curves.T)
        return expression - expression.mean(axis=(1, 2), keepdims=True) - predicted[..., None]
