"""Genes clustered by their regressions on time: two stages, one estimating equation.

    r(theta, w) = [dKL_g / d(regression of gene g), each g;  dF / d(clustering)] = 0

KL is stage one (`gene_regression`), F stage two (`gene_mixture`). The weights on times enter KL alone, and reach F only
through the regressions; no function of theta has r as its gradient. Source: Giordano et al. (2019), Section 6 and
Appendix B.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import autograd.numpy as np
import numpy as onp

from .checks import check_clusters, check_data, check_folds
from .derivatives import GenomicsFast
from .mixture import GeneMixture
from .regression import GeneRegression

SEEDS = 50  # k-means starts


class GenomicsParams(NamedTuple):
    """coefficients (n_genes, p), cholesky (n_genes, p, p), precision (n_genes,); centroids (K, d), shares (K,)."""

    coefficients: onp.ndarray
    cholesky: onp.ndarray
    precision: onp.ndarray
    centroids: onp.ndarray
    shares: onp.ndarray


@dataclass(frozen=True)
class GeneClusters:
    """expression (n_genes, n_times, n_replicates) on basis (n_times, p); a site is a time, all its replicates included.

    regularisation: rho, added to the variances of the coefficients before they are clustered; centroid_precision: of
    the centroids' prior; concentration: of the shares' Dirichlet prior, above 1 to keep clusters from emptying;
    assigned_by: the regression that says to which clusters a gene belongs when it is scored, on "all times" (as in the
    paper's figures) or the one in params, on the "kept times" alone. D = n_genes q + K p - 1 with
    q = p + p (p + 1) / 2 + 1. Raises ValueError for shapes, NaN, and genes without residual variance.
    """

    expression: onp.ndarray = field(repr=False)
    basis: onp.ndarray = field(repr=False)
    n_clusters: int = 18
    regularisation: float = 0.1
    centroid_precision: float = 1e-5
    concentration: float = 1.0
    assigned_by: Literal["all times", "kept times"] = "all times"

    def __post_init__(self):
        for name in ("expression", "basis"):
            object.__setattr__(self, name, onp.asarray(getattr(self, name), float))
        check_data(self)

    @property
    def n_sites(self):
        return self.expression.shape[1]

    @cached_property
    def stage_one(self):
        """The `GeneRegression` of these genes."""
        return self._regression_of(self.expression)

    @cached_property
    def stage_two(self):
        """The `GeneMixture`, in the d coordinates of fitted curves less their means over time."""
        scale, turn = self._demeaned[1:]
        settings = self.regularisation, self.centroid_precision, self.concentration
        return GeneMixture(scale[:, None] * turn, self.n_clusters, *settings)

    @property
    def curves(self):
        """(n_times, d): from clustered coordinates to curves with mean zero."""
        return self._demeaned[0]

    @cached_property
    def fast(self):
        """Sparse H, refits stage by stage; tested against autograd."""
        return GenomicsFast(self)

    def split(self, params):
        """(coordinates of the genes (n_genes, q), parameters of the clustering)."""
        cut = len(self.expression) * self.stage_one.size
        return params[:cut].reshape(len(self.expression), -1), params[cut:]

    def unpack(self, params):
        """Named arrays, a `GenomicsParams`."""
        genes, clusters = self.split(params)
        centroids, log_shares = self.stage_two.unpack(clusters)
        return GenomicsParams(*self.stage_one.unpack(genes), centroids, np.exp(log_shares))

    def residual(self, params, weights):
        """r(params, weights), (D,)."""
        genes, clusters = self.split(params)
        positions = self.stage_two.positions(self.stage_one.unpack(genes))
        regressions = self.stage_one.residual(genes, weights)
        return np.concatenate([regressions.ravel(), self.stage_two.gradient(clusters, positions)])

    def initial_params(self, rng=None, weights=None):
        """Stage one's solution, and the best of 50 k-means clusterings of its curves; rng seeds k-means."""
        from sklearn.cluster import KMeans

        regression = self.stage_one.solve(onp.ones(self.n_sites) if weights is None else weights)
        seed = int(onp.random.default_rng(0 if rng is None else rng).integers(2**31))
        centres = self.stage_two.positions(regression).centre
        means = KMeans(self.n_clusters, n_init=SEEDS, random_state=seed).fit(centres)
        sizes = onp.bincount(means.labels_, minlength=self.n_clusters)
        odds = onp.log(sizes[1:] / sizes[0])
        return onp.concatenate(
            [self.stage_one.pack(regression).ravel(), means.cluster_centers_.ravel(), odds]
        )

    def heldout_loss(self, params, fold):
        """Mean absolute error over genes and replicates of each time in the fold, as in Figure 3 of the paper."""
        return abs(self.errors(params)[:, fold]).mean(axis=(0, 2))

    def errors(self, params):
        """Expression less its gene's mean less the mean curve of its clusters, (n_genes, n_times, n_replicates)."""
        genes, clusters = self.split(params)
        used = self._own_positions if self.assigned_by == "all times" else self._positions(genes)
        return self._errors(self.expression, used, clusters)

    def errors_on(self, expression, params):
        """The same of other genes (n, n_times, n_replicates): regressed on all times, assigned to the clusters."""
        regression = self._regression_of(onp.asarray(expression, float)).solve(
            onp.ones(self.n_sites)
        )
        return self._errors(expression, self.stage_two.positions(regression), self.split(params)[1])

    def check_folds(self, folds):
        """Raises SingularRegression for a fold that leaves a gene's regression undetermined."""
        check_folds(self, folds)

    def check_optimum(self, params):
        """Raises EmptyCluster where a cluster holds less than half a gene."""
        check_clusters(self, params)

    @cached_property
    def _demeaned(self):
        """Singular vectors and values of the basis less its mean over times; one is zero, the constant's."""
        turned, scale, back = onp.linalg.svd(
            self.basis - self.basis.mean(axis=0), full_matrices=False
        )
        kept = scale > 1e-8 * scale[0]
        return turned[:, kept], scale[kept], back[kept]

    @cached_property
    def _own_positions(self):
        return self.stage_two.positions(self.stage_one.solve(onp.ones(self.n_sites)))

    def _positions(self, genes):
        return self.stage_two.positions(self.stage_one.unpack(genes))

    def _regression_of(self, expression):
        means = expression.mean(axis=2)
        scatter = ((expression - means[..., None]) ** 2).sum(axis=2)
        return GeneRegression(self.basis, means, scatter, expression.shape[2])

    def _errors(self, expression, positions, clusters):
        curves = self.stage_two.unpack(clusters)[0] @ self.curves.T
        predicted = self.stage_two.memberships(clusters, positions) @ curves
        return expression - expression.mean(axis=(1, 2), keepdims=True) - predicted[..., None]
