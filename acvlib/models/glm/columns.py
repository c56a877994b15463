"""Covariates in units of their own: rounding cares for levels and units, models do not.

b + x beta = c + z gamma,   z = (x - level) / scale,   [c, gamma] = A [b, beta]
"""

import numpy as np

from ...parallel import pieces

NEAR = 64.0  # levels in spreads, and spreads or their inverses, up to which x is taken as it is
CONSTANT = 1e-13  # spread over level, below which a column is constant but for rounding
ROWS = 256  # of which the spread is computed together


class Columns:
    """What takes params [b, beta] (..., D), a row a linear predictor, to those of z and back.

    standard (n, D'): ones for an intercept, then z, of mean 0 and of a spread of about 1 (scales
    are powers of 2), or less where the ridge, penalties over the sum of weights (p,), bends F more
    than the data do; x itself (`plain`) where that is as good.
    """

    def __init__(self, X: np.ndarray, intercept: bool, weights: np.ndarray, ridge: np.ndarray):
        head = int(intercept)
        level, spread = _moments(X, intercept, weights)
        self.plain = bool((abs(level) <= NEAR * spread).all())
        self.plain &= bool(((spread >= 1.0 / NEAR) & (spread <= NEAR)).all())
        scale: np.ndarray = np.ones(len(spread))
        z = X
        if not self.plain:
            size = np.hypot(np.where(spread > 0.0, spread, abs(level)), np.sqrt(ridge))
            scale = 2.0 ** np.round(np.log2(np.where(size > 0.0, size, 1.0)))
            z = (X - level) / scale
        self.standard = np.column_stack([np.ones((len(X), head)), z])
        self.standard.setflags(write=False)
        self.scale = np.append(np.ones(head), scale)
        self._inward = np.diag(self.scale)
        self._outward = np.diag(1.0 / self.scale)
        if head:
            self._inward[0, 1:] = level
            self._outward[0, 1:] = -level / scale

    def inward(self, params: np.ndarray) -> np.ndarray:
        """A params: those of z."""
        return self._times(params, self._inward.T)

    def outward(self, params: np.ndarray) -> np.ndarray:
        """A^-1 params: those of x."""
        return self._times(params, self._outward.T)

    def gradient(self, slopes: np.ndarray) -> np.ndarray:
        """A' slopes: derivatives in the params of x, of those in the params of z."""
        return self._times(slopes, self._inward)

    def standard_gradient(self, slopes: np.ndarray) -> np.ndarray:
        """A'^-1 slopes: derivatives in the params of z, of those in the params of x."""
        return self._times(slopes, self._outward)

    def identity(self, size: int) -> np.ndarray:
        """|params of x|^2 as a matrix (size, size) of params of z."""
        squares = np.eye(len(self.scale)) if self.plain else self._outward.T @ self._outward
        return np.kron(np.eye(size // len(squares)), squares)

    def _times(self, rows, matrix):
        if self.plain:
            return rows
        return (rows.reshape(*rows.shape[:-1], -1, len(matrix)) @ matrix).reshape(rows.shape)


def _moments(X, intercept, weights):
    """(mean (p,), or 0 without an intercept; root mean square of what is left, 0 if constant)."""
    weights = weights / weights.sum()
    level = weights @ X if intercept else np.zeros(X.shape[1])
    parts = pieces(len(X), ROWS)
    spread = np.sqrt(sum((weights[own] @ (X[own] - level) ** 2 for own in parts), 0.0 * level))
    constant = spread <= CONSTANT * abs(level)
    if constant.any():
        level[constant] = X[np.argmax(weights > 0.0), constant]
        spread[constant] = 0.0
    return level, spread
