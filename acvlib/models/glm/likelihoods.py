"""Losses of scores (..., K, n) = Q eta, eta (..., q, n) the linear predictors.

Each has Q (K, q), `spread`, of orthonormal columns, and how Hessians and bounds are built: those of
one linear predictor or of classes are matrices of all coordinates, those of targets one a target.
"""

from typing import Any

import autograd.numpy as anp
import numpy as np
from scipy.linalg import helmert

from ...concordance import convex_range, widened
from .families import FAMILIES, LOG_2PI, Family
from .hessians import JointHessian, TargetHessian
from .sums import ROWS, gram, sum_of


class Single:
    """A family's loss of one linear predictor: K = q = 1."""

    identity = True  # Q
    separated = (
        "a linear combination of the columns separates the responses (fitted |eta| up to {:.3g})"
    )

    def __init__(self, family: Family):
        self.family = family
        self.spread = np.ones((1, 1))
        self.name = family.name
        self.quadratic = family is FAMILIES["gaussian"]
        self.self_concordant = family.self_concordant

    def loss(self, scores: Any, y: np.ndarray) -> Any:
        """-log p(y | scores), (..., n)."""
        return self.family.loss(scores[..., 0, :], y)

    def residual(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """d loss / d scores."""
        return self.family.slope(scores, y)

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The intercept (1,) that fits the mean."""
        return self.family.link(np.average(y, weights=weights))

    def curvature(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(n, 1, 1)."""
        return self.family.curvature(scores[0], y)[:, None, None]

    def gram(self, x: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """sum_n curvature_n x_n x_n'."""
        return gram(x, curvature[:, 0, 0])

    def hessian(self, gram: np.ndarray, ridge: np.ndarray) -> JointHessian:
        """gram + diag(ridge (D,))."""
        return JointHessian(gram + np.diag(ridge))

    def apart(self, scores: np.ndarray) -> np.ndarray:
        """|eta|, (..., n)."""
        return abs(scores[..., 0, :])

    def gains(self, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows (n, D), which way each lowers its loss for ever), for `separating_direction`."""
        return design, self.family.free_direction(y)

    def spreads(self, leverage: np.ndarray) -> np.ndarray:
        """How far eta moves, at most, by a standard error, (n,)."""
        return np.sqrt(leverage[:, 0, 0])

    def loss_range(
        self, scores: np.ndarray, y: np.ndarray, apart: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds (n,) of losses where each eta moves by no more than `apart` (n,)."""
        with np.errstate(all="ignore"):
            best = self.family.link(y)
        return convex_range(lambda eta: self.family.loss(eta, y), scores[0], apart, best)


class Multinomial:
    """loss = log sum_k exp(scores_k) - scores_y, y in 0, ..., K - 1.

    Adding a number to all scores changes nothing, and penalised coefficients sum to 0: Q (K, K - 1)
    is a basis of what is left.
    """

    name = "multinomial"
    identity = False
    quadratic = False
    self_concordant = True  # a Hessian changes at most by exp(|how far scores move apart|)
    separated = (
        "linear combinations of the columns separate some classes (fitted scores up to {:.3g} "
        "apart)"
    )

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

    def curvature(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
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

        gram = sum_of(of_rows, len(x), max(ROWS, -(-len(x) // 8)))
        for i in range(q):
            gram[:i, :, i] = gram[i, :, :i].transpose(1, 0, 2)
        return gram.reshape(q * dim, q * dim)

    def hessian(self, gram: np.ndarray, ridge: np.ndarray) -> JointHessian:
        """gram + diag(ridge (D,))."""
        return JointHessian(gram + np.diag(ridge))

    def apart(self, scores: np.ndarray) -> np.ndarray:
        """The largest difference of two scores, (..., n)."""
        return np.ptp(scores, axis=-2)

    def gains(self, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(how much a direction raises the score of each y over every other one (., D), ones)."""
        over = self.spread[y, None] - self.spread  # (n, K, q)
        others = np.arange(len(self.spread)) != y[:, None]
        x = np.repeat(design, len(self.spread) - 1, axis=0)
        rows = (over[others][:, :, None] * x[:, None, :]).reshape(len(x), -1)
        return rows, np.ones(len(rows), int)

    def spreads(self, leverage: np.ndarray) -> np.ndarray:
        """How far two scores of a site move apart, at most, by a standard error, (n,)."""
        scores = np.einsum("ki,nij->nkj", self.spread, leverage) @ self.spread.T
        own = np.einsum("nkk->nk", scores)
        squares = own[:, :, None] + own[:, None, :] - 2.0 * scores
        return np.sqrt(squares.max(axis=(1, 2)))

    def loss_range(
        self, scores: np.ndarray, y: np.ndarray, apart: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds (n,) of losses where scores move apart by no more than `apart` (n,)."""
        loss = self.loss(scores, y)
        with np.errstate(all="ignore"):
            change = np.log1p(np.expm1(loss) * np.exp(apart)) - loss
        return widened(loss - change, loss + change)


class Gaussian:
    """loss = |y - scores|^2 / 2 + K log(2 pi) / 2, y (K,): Q = I, and nothing couples targets."""

    name = "gaussian"
    identity = True
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

    def curvature(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """1 for each site, (n,)."""
        return np.ones(len(y))

    def gram(self, x: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """sum_n curvature_n x_n x_n', which all targets share."""
        return gram(x, curvature)

    def hessian(self, gram: np.ndarray, ridge: np.ndarray) -> TargetHessian:
        """gram + diag(ridge_k) for each target k, of ridge (D,)."""
        return TargetHessian(gram, ridge.reshape(-1, len(gram)))

    def spreads(self, leverage: np.ndarray) -> np.ndarray:
        """How far scores move, at most, by a standard error, (n,)."""
        return np.sqrt(leverage.max(axis=1))

    def loss_range(
        self, scores: np.ndarray, y: np.ndarray, apart: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds (n,) of losses where scores move by no more than `apart` (n,)."""
        loss = self.loss(scores, y)
        change = (np.linalg.norm(scores - y.T, axis=0) + 0.5 * apart) * apart
        return widened(loss - change, loss + change)
