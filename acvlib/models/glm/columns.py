"""Covariates in units of their own: rounding cares for levels and units, models do not.

    b + x beta = c + z gamma,   z = (x - level) / scale,   [c, gamma] = A [b, beta]

And where there is no finite optimum: columns that are collinear, or separate the responses.
"""

from functools import partial
from typing import Any

import numpy as np

from ...folds import Folds
from ...trials import NoFiniteOptimum, separated

NEAR = 64.0  # levels in spreads, and spreads or their inverses, up to which x is taken as it is
CONSTANT = 1e-13  # spread over level, below which a column is constant but for rounding
EXTREME = 15.0  # certainty of responses up to which nothing is separated: no slope below 3e-7
UNSURE = 5.0  # certainty of responses up to which their slopes still pull
PULL = 1e-6  # least eigenvalue of such rows, a site
TOGETHER = 64  # folds that are looked at together, before each is
COLLINEAR = 1e-12  # least eigenvalue, over the largest, of the scaled columns of full rank


class Columns:
    """What takes params [b, beta] (..., D), a row a linear predictor, to those of z and back.

    standard (n, D'): ones for an intercept, then z, of mean 0 and of a spread of about 1 (scales
    are powers of 2), or less where the ridge, penalties over the sum of weights (p,), bends F more
    than the data do; x itself (`plain`, A = I) where that is as good.
    """

    def __init__(self, X: np.ndarray, intercept: bool, weights: np.ndarray, ridge: np.ndarray):
        weights = weights / weights.sum()
        level = weights @ X if intercept else np.zeros(X.shape[1])
        spread = np.sqrt(weights @ (X - level) ** 2)
        constant = spread <= CONSTANT * abs(level)
        level[constant] = X[np.argmax(weights), constant]
        spread[constant] = 0.0
        near = (abs(level) <= NEAR * spread) & (spread >= 1.0 / NEAR) & (spread <= NEAR)
        self.plain = bool((near & (np.sqrt(ridge) <= NEAR * spread)).all())
        size = np.hypot(np.where(spread > 0.0, spread, abs(level)), np.sqrt(ridge))
        scale = 2.0 ** np.round(np.log2(np.where(size > 0.0, size, 1.0)))
        if self.plain:
            level, scale = np.zeros_like(level), np.ones_like(scale)
        ones = np.ones((len(X), int(intercept)))
        self.standard = np.column_stack([ones, (X - level) / scale])
        self.standard.setflags(write=False)
        self.free = np.append(ones[0] > 0.0, ridge == 0.0)
        self.scale = np.append(ones[0], scale)
        self.matrix = np.diag(self.scale)  # A
        inverse = np.diag(1.0 / self.scale)
        if intercept:
            self.matrix[0, 1:] = level
            inverse[0, 1:] = -level / scale
        self.inward = self._by(self.matrix.T)  # of params of x: A params, those of z
        self.outward = self._by(inverse.T)  # and back
        self.gradient = self._by(self.matrix)  # of derivatives by params of z: those by x's
        self.standard_gradient = self._by(inverse)  # and back

    def basis(self, n_outputs: int) -> np.ndarray | None:
        """A of several predictors (D, D); None in place of I."""
        return None if self.plain else np.kron(np.eye(n_outputs), self.matrix)

    def _by(self, matrix):
        return partial(_times, None if self.plain else matrix)


def _times(matrix, rows):
    """Each predictor's rows times a matrix (D', D'), or I."""
    if matrix is None:
        return rows
    return (rows.reshape(*rows.shape[:-1], -1, len(matrix)) @ matrix).reshape(rows.shape)


class Rank:
    """The columns of a design that no ridge identifies, scaled to length 1.

    Raises ValueError where they are collinear, naming the most nearly dependent one.
    """

    def __init__(self, design: np.ndarray, free: np.ndarray):
        self.free = np.flatnonzero(free)
        design = design[:, self.free]
        self.lengths = np.maximum(np.linalg.norm(design, axis=0), np.finfo(float).tiny)
        scaled = design / self.lengths
        self.products = scaled.T @ scaled
        values, vectors = np.linalg.eigh(self.products)
        self.least = values.min(initial=np.inf)
        self.limit = COLLINEAR * values.max(initial=0.0)
        if self.least <= self.limit:
            rows, columns = design.shape
            raise ValueError(
                f"the {columns} columns without a penalty (intercept first, if any) of {rows} "
                f"observed rows are collinear, column {self.free[np.argmax(abs(vectors[:, 0]))]} "
                "among them: drop it, or pass penalty > 0"
            )

    def check_folds(self, design: np.ndarray, folds: Folds) -> None:
        """Raise LinAlgError for the first fold without whose rows they are collinear."""
        design = design[:, self.free]
        squares = (design**2) @ self.lengths**-2.0
        taken = folds.indicator(len(design)) @ squares  # bounds what the least eigenvalue loses
        for number in np.flatnonzero(taken > 0.99 * self.least):
            rows = design[folds[number]] / self.lengths
            if np.linalg.eigvalsh(self.products - rows.T @ rows)[0] <= self.limit:
                raise np.linalg.LinAlgError(
                    f"the Hessian is singular without {folds.name(number)}, which alone identifies "
                    "some parameter: leave it in, or pass penalty > 0"
                )


def check_finite(model: Any, params: np.ndarray, folds: Folds) -> None:
    """Raise NoFiniteOptimum for the first fold whose params (n_folds, D) are at infinity.

    There some response is certain, and a direction without a penalty separates those of the sites
    that are left. None does where rows whose slopes still pull, and have a sum of 0, span them all.
    """
    if len(folds) <= TOGETHER:
        eta = model.predictors(model.columns.inward(params))
        certainty = model.family.certainty(eta, model.responses)
        if not certainty.max() > EXTREME:
            return
        kept = model.observed & (folds.indicator(model.n_sites).toarray() == 0.0)
        free = model.columns.standard[:, model.columns.free]
        pulling = free[(kept & (certainty <= UNSURE)).all(axis=0)]
        if len(pulling) and np.linalg.eigvalsh(pulling.T @ pulling)[0] > PULL * model.n_sites:
            return
        if len(folds) == 1:
            if separated(*model.family.gains(free[kept[0]], model.responses[..., kept[0]])):
                where = f"without {folds.name(0)} " if len(folds[0]) else ""
                raise NoFiniteOptimum(
                    f"{where}the {model.family.name} likelihood has no finite maximum: a linear "
                    "combination of the columns separates the responses. Pass penalty > 0"
                )
            return
    middle = len(folds) // 2
    for half in (slice(0, middle), slice(middle, len(folds))):
        check_finite(model, params[half], folds.part(half))
