"""Derivatives of the genomics model in blocks, and its solution stage by stage.

H = [[A, 0], [B, C]]: A has a block of q rows for each gene, C is the clustering's own Hessian, and
B couples the two.
"""

from collections import Counter
from typing import Any

import numpy as np
from autograd.core import make_vjp
from scipy.sparse import block_diag, csr_matrix
from scipy.sparse.linalg import LinearOperator

from acvlib.derivatives import EquationDerivatives, at
from acvlib.folds import Folds
from acvlib.folds import weights as fold_weights
from acvlib.model import Refits
from acvlib.parallel import track

from .checks import check_clusters
from .jacobian import FoldJacobians, TwoStageJacobian

RESIDUAL = 1e-8  # norm of the whole residual at which a fold counts as solved


class GenomicsDerivatives(EquationDerivatives):
    """Derivatives and refits of one `GeneClusters`; tested against autograd."""

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> TwoStageJacobian:
        """dr/dparams (D, D)."""
        genes, clusters = self.model.split(params)
        positions = self.model.positions(genes)
        blocks = self.model.stage_one.hessian(genes, weights)
        last = self.model.stage_two.hessian(clusters, positions)
        return TwoStageJacobian(blocks, self._coupling(genes, clusters), last)

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """dr/dweights (D, n_sites), the same at all weights: stage one is affine in them."""
        genes, clusters = self.model.split(params)
        by_gene = self.model.stage_one.cross(genes).reshape(-1, self.n_sites)
        return np.concatenate([by_gene, np.zeros((len(clusters), self.n_sites))])

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Any = None
    ) -> FoldJacobians:
        """dr/dparams + damping I of each fold."""
        weights = [fold_weights(self.n_sites, fold) for fold in folds]
        found = [self.hessian(at(params, row), w) for row, w in enumerate(weights)]
        return FoldJacobians([jacobian.damped(damping) for jacobian in found])

    def metric(self, params: np.ndarray, hessian: TwoStageJacobian) -> csr_matrix:
        """diag(A, C): the curvature of each stage's own objective, an inverse squared SE."""
        return block_diag([*hessian.blocks, hessian.last], format="csr")

    def refits(self, params: np.ndarray, folds: Folds, tolerance: float) -> Refits:
        """Solve each fold stage by stage from params (D,) or (n_folds, D). Raises EmptyCluster."""
        found = []
        residual = []
        for number, fold in enumerate(track(folds, "refits")):
            weights = fold_weights(self.n_sites, fold)
            found.append(self.model.solve(at(params, number), weights))
            solved = found[-1].params
            residual.append(np.linalg.norm(self.model.residual(solved, weights)))
            check_clusters(self.model, solved, f"fold {number}" if len(fold) else "the fit")
        ends, indefinite, decrement, steps = map(np.array, zip(*found, strict=True))
        converged = (np.array(residual) <= RESIDUAL) & (decrement <= tolerance) & ~indefinite
        counts = Counter(dict.fromkeys(("gradient", "hessian"), int(steps.sum()) + len(folds)))
        return Refits(ends, decrement, indefinite, steps, converged, np.array(residual), counts)

    def _coupling(self, genes, clusters):
        """B by reverse passes: B'u pulls the clustering's gradient back, and is linear in u."""

        def gradient(genes):
            return self.model.stage_two.gradient(clusters, self.model.positions(genes))

        pullback, value = make_vjp(gradient, genes)
        push, _ = make_vjp(pullback, np.zeros_like(value))
        return LinearOperator(
            (len(clusters), genes.size),
            matvec=lambda v: push(v.reshape(genes.shape)),
            rmatvec=lambda u: pullback(u.ravel()).ravel(),
            dtype=float,
        )
