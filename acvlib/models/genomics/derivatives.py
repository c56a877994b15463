"""Derivatives of the genomics model in blocks, and its solution stage by stage, named as in `curvature`.

H = [[A, 0], [B, C]]: A has a block of q rows for each gene, C is the clustering's own Hessian, B couples the two.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from autograd.core import make_vjp
from scipy.sparse import block_diag
from scipy.sparse.linalg import LinearOperator

from ...folds import weights as fold_weights
from ...parallel import track
from .checks import check_clusters
from .jacobian import TwoStageJacobian
from .newton import minimise

RESIDUAL = 1e-8  # norm of the whole residual at which a fold counts as solved


@dataclass
class Refits:
    """What `exact` reports of n folds: params (n, D), and an entry a fold of each other array."""

    params: np.ndarray
    decrement: np.ndarray
    smallest_eigenvalue: np.ndarray
    steps: np.ndarray
    residual: np.ndarray
    converged: np.ndarray
    evaluations: Counter


class GenomicsFast:
    """Derivatives and refits of one `GeneClusters`."""

    def __init__(self, model):
        self.model, self.one, self.two = model, model.stage_one, model.stage_two

    def hessian(self, params, weights):
        """H, a `TwoStageJacobian`."""
        genes, clusters = self.model.split(params)
        last = self.two.hessian(clusters, self.two.positions(self.one.unpack(genes)))
        return TwoStageJacobian(
            self.one.hessian(genes, weights), self._coupling(genes, clusters), last
        )

    def hessian_and_cross(self, params, weights):
        """(H, J), J (D, n_sites): zero for the clustering, which the weights reach only through the regressions."""
        genes, clusters = self.model.split(params)
        by_gene = self.one.cross(genes).reshape(-1, self.model.n_sites)
        return self.hessian(params, weights), np.vstack(
            [by_gene, np.zeros((len(clusters), self.model.n_sites))]
        )

    def equation_metric(self, params):
        """diag(A, C) at w = 1, sparse: the curvature of each stage's own objective, an inverse squared SE."""
        matrix = self.hessian(params, np.ones(self.model.n_sites))
        return block_diag([matrix.first, matrix.last], format="csr")

    def _coupling(self, genes, clusters):
        """B: products in closed form, those with its transpose by one reverse pass."""
        regression, n, size = self.one.unpack(genes), len(genes), self.two.size

        def product(columns):
            directions = self.one.unpack_directions(genes, columns.T.reshape(-1, *genes.shape))
            return self.two.push(clusters, regression, *directions).sum(axis=1).T

        def gradient(genes):
            return self.two.gradient(clusters, self.two.positions(self.one.unpack(genes)))

        return LinearOperator(
            (size, n * self.one.size),
            matvec=lambda v: product(v.reshape(-1, 1))[:, 0],
            matmat=product,
            rmatvec=lambda v: make_vjp(gradient, genes)[0](v.ravel()).ravel(),
            dtype=float,
        )

    def newton_params(self, fit, folds, damping):
        """(theta - H(w_o)^-1 r(theta, w_o) (n_folds, D), nan for every fold: H has no smallest eigenvalue)."""
        rows = [
            self._newton(fit.params, fold_weights(self.model.n_sites, fold), damping)
            for fold in folds
        ]
        return np.array(rows), np.full(len(folds), np.nan)

    def _newton(self, params, weights, damping):
        residual = self.model.residual(params, weights)
        return params - self.hessian(params, weights).factorise(damping)(residual)

    def fold_solutions(self, params, folds, tolerance):
        """Each fold solved from params (n_folds, D): stage one in closed form, stage two by Newton's method.

        Converged: |r| <= 1e-8, decrement <= tolerance and a positive definite C. Raises EmptyCluster.
        """
        rows = []
        for number, (start, fold) in enumerate(zip(track(params, "refits"), folds, strict=True)):
            rows.append(self.solve(start, fold_weights(self.model.n_sites, fold)))
            check_clusters(self.model, rows[-1][0], f"fold {number}" if len(fold) else "the fit")
        solved, decrement, smallest, steps, residual = (
            np.array(column) for column in zip(*rows, strict=True)
        )
        converged = (residual <= RESIDUAL) & (decrement <= tolerance) & (smallest > 0.0)
        counts = Counter(
            gradient=int(steps.sum()) + len(folds), hessian=int(steps.sum()) + len(folds)
        )
        return Refits(solved, decrement, smallest, steps, residual, converged, counts)

    def solve(self, start, weights):
        """(params, decrement, smallest eigenvalue of C, steps, |r|) of the solution at weights, C from `start`."""
        regression = self.one.solve(weights)
        found = minimise(self.two, self.model.split(start)[1], self.two.positions(regression))
        params = np.concatenate([self.one.pack(regression).ravel(), found.params])
        residual = np.linalg.norm(self.model.residual(params, weights))
        return params, found.decrement, found.smallest_eigenvalue, found.steps, residual
