"""Derivatives of the genomics model in blocks, and its solution stage by stage.

H = [[A, 0], [B, C]]: A has a block of q rows for each gene, C is the clustering's own Hessian, and
B couples the two and is only multiplied with. Eliminating A first leaves C as it is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from autograd.core import make_vjp
from scipy.sparse import block_diag, csr_matrix
from scipy.sparse.linalg import LinearOperator

from acvlib.derivatives import Derivatives, at
from acvlib.folds import Folds
from acvlib.folds import weights as fold_weights
from acvlib.model import Refits
from acvlib.parallel import track
from acvlib.solvers.inverse import FoldSolver


@dataclass(frozen=True)
class TwoStageJacobian:
    """blocks (n, q, q): the diagonal of A; coupling: B; last: C (m, m)."""

    __array_ufunc__ = None  # numpy leaves `rows @ jacobian` to us
    indefinite: ClassVar[bool] = False

    blocks: np.ndarray
    coupling: LinearOperator
    last: np.ndarray

    def __array__(self, dtype=None, copy=None):
        return np.eye(sum(self.coupling.shape)) @ self

    def __matmul__(self, columns):
        above, below = self._split(columns)
        by_block = above.reshape(*self.blocks.shape[:2], -1)
        across = (self.blocks @ by_block).reshape(above.shape)
        return np.concatenate([across, self.coupling @ above + self.last @ below])

    def __rmatmul__(self, rows):
        above, below = self._split(rows.T)
        by_block = above.reshape(*self.blocks.shape[:2], -1)
        across = (self.blocks.swapaxes(1, 2) @ by_block).reshape(above.shape)
        return np.concatenate([across + self.coupling.T @ below, self.last.T @ below]).T

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, k)."""
        above, below = self._split(columns)
        by_block = above.reshape(*self.blocks.shape[:2], -1)
        above = np.linalg.solve(self.blocks, by_block).reshape(above.shape)
        below = np.linalg.solve(self.last, below - self.coupling @ above)
        return np.concatenate([above, below])

    def damped(self, damping: float) -> "TwoStageJacobian":
        """H + damping I."""
        blocks = self.blocks + damping * np.eye(self.blocks.shape[1])
        last = self.last + damping * np.eye(len(self.last))
        return TwoStageJacobian(blocks, self.coupling, last)

    def _split(self, columns):
        return np.split(columns, [self.coupling.shape[1]])


class FoldJacobians(FoldSolver):
    """The Jacobian of each fold."""

    def __init__(self, jacobians: Sequence[TwoStageJacobian]):
        self.jacobians = jacobians

    @property
    def indefinite(self) -> np.ndarray:
        """(n,) False."""
        return np.zeros(len(self.jacobians), bool)

    def solve(self, vectors: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        pairs = zip(np.arange(len(self.jacobians))[rows], vectors, strict=True)
        return np.array([self.jacobians[row].solve(vector) for row, vector in pairs])


RESIDUAL = 1e-8  # norm of the whole residual at which a fold counts as solved
HALF_A_GENE = 0.5  # a cluster of fewer genes counts as empty


class EmptyCluster(ValueError):
    """A cluster lost its genes: the clustering's optimum is at infinity."""


def check_clusters(model: Any, params: np.ndarray, who: str = "the fit") -> None:
    """Raise EmptyCluster for a cluster with less than half a gene."""
    sizes = len(model.expression) * model.unpack(params).shares
    if sizes.min() < HALF_A_GENE:
        least = f"cluster {sizes.argmin()} with {sizes.min():.2g} of {len(model.expression)} genes"
        raise EmptyCluster(
            f"{who} leaves {least}: take fewer clusters than {model.n_clusters}, or pass "
            "concentration > 1"
        )


class GenomicsDerivatives(Derivatives):
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
