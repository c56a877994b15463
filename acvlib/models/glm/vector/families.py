"""Responses with several linear predictors: their losses, and how their Hessians are built.

scores (..., K, n) = Q eta, eta (..., q, n) the linear predictors, Q (K, q) orthonormal columns.
"""

from typing import Any

import autograd.numpy as anp
import numpy as np
from scipy.linalg import helmert

from ....parallel import in_blas_threads, pieces
from ..families import LOG_2PI
from .hessians import JointHessian, TargetHessian

ROWS = 1024


class Multinomial:
    """loss = log sum_k exp(scores_k) - scores_y, y in 0, ..., K - 1.

    Adding a number to all scores changes nothing, and penalised coefficients sum to 0: Q (K, K - 1)
    is a basis of what is left.
    """

    quadratic = False
    self_concordant = True  # a Hessian changes at most by exp(|how far scores move apart|)

    def __init__(self, n_classes: int):
        self.spread = np.ascontiguousarray(helmert(n_classes).T)
        self._products = np.einsum("ki,kj->kij", self.spread, self.spread)

    def loss(self, scores: Any, y: np.ndarray) -> Any:
        """-log p(y | scores), (..., n)."""
        highest = anp.max(scores, axis=-2)
        total = anp.sum(anp.exp(scores - highest[..., None, :]), axis=-2)
        return highest + anp.log(total) - scores[..., y, np.arange(len(y))]

    def residual(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """d loss / d scores."""
        shares = self.mean(scores)
        shares[..., y, np.arange(len(y))] -= 1.0
        return shares

    def mean(self, scores: np.ndarray) -> np.ndarray:
        """p(k | scores)."""
        shares = scores - scores.max(axis=-2, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=-2, keepdims=True)
        return shares

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The intercepts (q,) that fit the shares of the classes."""
        counts = np.bincount(y, weights, len(self.spread))
        return self.spread.T @ np.log(counts)

    def curvature(self, scores: np.ndarray) -> np.ndarray:
        """Q' (diag p - p p') Q, (n, q, q)."""
        shares = self.mean(scores).T
        along = shares @ self.spread
        own = np.tensordot(shares, self._products, axes=1)
        return own - along[:, :, None] * along[:, None, :]

    def gram(self, x: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """sum_n curvature_n (x) x_n x_n', (D, D), D = q x.shape[1]; half of it is computed."""
        q = curvature.shape[1]
        dim = x.shape[1]

        def of_rows(rows):
            block = x[rows]
            gram = np.zeros((q, dim, q, dim))
            for i in range(q):
                weighted = block[:, None, :] * curvature[rows, i, : i + 1, None]
                product = block.T @ weighted.reshape(len(block), -1)
                gram[i, :, : i + 1] = product.reshape(dim, i + 1, dim)
            return gram

        size = max(ROWS, -(-len(x) // 8))
        gram = sum(in_blas_threads(of_rows, pieces(len(x), size)), np.zeros((q, dim, q, dim)))
        for i in range(q):
            gram[:i, :, i] = gram[i, :, :i].transpose(1, 0, 2)
        return gram.reshape(q * dim, q * dim)

    def hessian(self, gram: np.ndarray, penalty: np.ndarray) -> JointHessian:
        """gram + diag(penalty (q, D'))."""
        return JointHessian(gram + np.diag(penalty.ravel()))

    def times(self, leverage: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """L_n times a vector (q,) of each site."""
        return np.einsum("nij,nj->ni", leverage, vectors)

    def corrected(
        self, curvature: np.ndarray, leverage: np.ndarray, along: np.ndarray
    ) -> np.ndarray:
        """(I - C L)^-1 C along, a row a site."""
        left = np.eye(along.shape[1]) - curvature @ leverage
        right = np.einsum("nij,nj->ni", curvature, along)
        return np.linalg.solve(left, right[..., None])[..., 0]

    def kept(self, curvature: np.ndarray, leverage: np.ndarray) -> np.ndarray:
        """A lower bound (n,) on the share of curvature that is left without a site."""
        return 1.0 - np.einsum("nij,nji->n", curvature, leverage)

    def spreads(self, leverage: np.ndarray) -> np.ndarray:
        """How far two scores of a site move apart, at most, by a standard error, (n,)."""
        scores = np.einsum("ki,nij->nkj", self.spread, leverage) @ self.spread.T
        own = np.einsum("nkk->nk", scores)
        squares = own[:, :, None] + own[:, None, :] - 2.0 * scores
        return np.sqrt(squares.max(axis=(1, 2)))

    def change(self, scores: np.ndarray, y: np.ndarray, apart: np.ndarray) -> np.ndarray:
        """Bound how much a loss changes where scores move apart by no more than that, (n,)."""
        loss = self.loss(scores, y)
        odds = np.expm1(loss)
        with np.errstate(over="ignore"):
            return np.log1p(odds * np.exp(apart)) - loss


class Gaussian:
    """loss = |y - scores|^2 / 2 + K log(2 pi) / 2, y (K,): Q = I, and nothing couples targets."""

    quadratic = True
    self_concordant = True

    def __init__(self, n_targets: int):
        self.spread = np.eye(n_targets)

    def loss(self, scores: Any, y: np.ndarray) -> Any:
        """-log N(y; scores, I), (..., n)."""
        squares = anp.sum((scores - y.T) ** 2, axis=-2)
        return 0.5 * (squares + y.shape[1] * LOG_2PI)

    def residual(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """d loss / d scores."""
        return scores - y.T

    def mean(self, scores: np.ndarray) -> np.ndarray:
        """E[y | scores]."""
        return scores

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The mean of y."""
        return np.average(y, axis=0, weights=weights)

    def curvature(self, scores: np.ndarray) -> np.ndarray:
        """1 for each site, (n, 1, 1)."""
        return np.ones((scores.shape[-1], 1, 1))

    def gram(self, x: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """sum_n curvature_n x_n x_n', which all targets share."""
        return (x.T * curvature[:, 0, 0]) @ x

    def hessian(self, gram: np.ndarray, penalty: np.ndarray) -> TargetHessian:
        """gram + diag(penalty_k) for each target k."""
        return TargetHessian(gram, penalty)

    def times(self, leverage: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """l_n times a vector (K,) of each site."""
        return leverage * vectors

    def corrected(
        self, curvature: np.ndarray, leverage: np.ndarray, along: np.ndarray
    ) -> np.ndarray:
        """c / (1 - c l) along, l (n, K) each target's own."""
        c = curvature[:, :, 0]
        return c / (1.0 - c * leverage) * along

    def kept(self, curvature: np.ndarray, leverage: np.ndarray) -> np.ndarray:
        """The least share of curvature that is left without a site, (n,)."""
        return 1.0 - curvature[:, 0, 0] * leverage.max(axis=1)

    def spreads(self, leverage: np.ndarray) -> np.ndarray:
        """How far scores move, at most, by a standard error, (n,)."""
        return np.sqrt(leverage.max(axis=1))

    def change(self, scores: np.ndarray, y: np.ndarray, apart: np.ndarray) -> np.ndarray:
        """Bound how much a loss changes where scores move by no more than that, (n,)."""
        return (np.linalg.norm(scores - y.T, axis=0) + 0.5 * apart) * apart
