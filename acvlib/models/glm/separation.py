"""Data without a finite optimum: collinear columns, or a direction in which a likelihood rises."""

from typing import Any

import numpy as np
from scipy.optimize import linprog

from ...folds import Folds, weights
from ...parallel import pieces
from ...trials import NoFiniteOptimum

EXTREME = 15.0  # how far apart scores are up to which nothing is separated: no loss below 3e-7
COLLINEAR = 1e-12  # least eigenvalue, over the largest, of the scaled columns of full rank


class Rank:
    """The columns of a design, scaled to length 1: none may depend on the others.

    Raises ValueError where they are collinear, naming the most nearly dependent one.
    """

    def __init__(self, design: np.ndarray):
        lengths = np.linalg.norm(design, axis=0)
        self.lengths = np.maximum(lengths, np.finfo(float).tiny)
        scaled = design / self.lengths
        self.products = scaled.T @ scaled
        values, vectors = np.linalg.eigh(self.products)
        self.least = values.min(initial=np.inf)
        self.limit = COLLINEAR * values.max(initial=0.0)
        if self.least <= self.limit:
            worst = np.argmax(abs(vectors[:, 0]))
            rows, columns = design.shape
            raise ValueError(
                f"the {columns} columns (intercept first, if any) of {rows} observed rows are "
                f"collinear, column {worst} among them: drop it, or pass penalty > 0"
            )

    def check_folds(self, design: np.ndarray, folds: Folds) -> None:
        """Raise LinAlgError for the first fold without whose rows they are collinear."""
        squares = (design**2) @ self.lengths**-2.0
        taken = folds.indicator(len(design)) @ squares  # bounds what the least eigenvalue loses
        for number in np.flatnonzero(taken > 0.99 * self.least):
            rows = design[folds[number]] / self.lengths
            left = self.products - rows.T @ rows
            try:
                np.linalg.cholesky(left - self.limit * np.eye(len(left)))
            except np.linalg.LinAlgError:
                single = folds.sizes.max() == 1
                where = f"site {folds[number][0]}" if single else f"fold {number}"
                raise np.linalg.LinAlgError(
                    f"the Hessian is singular without {where}, which alone identifies some "
                    "parameter: leave it in, or pass penalty > 0"
                ) from None


def check_finite(model: Any, params: np.ndarray, folds: Folds) -> None:
    """Raise NoFiniteOptimum for the first fold whose params (n_folds, D) are at infinity.

    They are large there, and a direction separates the responses of the sites that are left.
    """
    standard = model.columns.inward(params)
    for part in pieces(len(folds), 64):
        scores = model.family.apart(model.predictors(standard[part]) - model.offset)
        for number in part.start + np.flatnonzero(scores.max(axis=1) > EXTREME):
            kept = model.observed & (weights(model.n_sites, folds[number]) > 0.0)
            furthest = scores[number - part.start, kept].max()
            rows = model.columns.standard[kept], model.responses[..., kept]
            if furthest <= EXTREME or separating_direction(*model.family.gains(*rows)) is None:
                continue
            where = f"without fold {number} " if len(folds[number]) else ""
            raise NoFiniteOptimum(
                f"{where}the {model.family.name} likelihood has no finite maximum: a linear "
                f"combination of the columns separates the responses (fitted scores up to "
                f"{furthest:.3g} apart). Pass penalty > 0"
            )


def separating_direction(design: np.ndarray, free: np.ndarray) -> np.ndarray | None:
    """Find a direction (D,) along which no loss rises and some fall, or None.

    design (n, D), of full rank; free (n,): 1, -1 where the loss does not rise as eta goes to plus,
    minus infinity, else 0.

    Source: Albert and Anderson (1984).
    """
    one_way = free != 0
    gains = design[one_way] * free[one_way, None]
    fixed = design[~one_way]
    solution = linprog(
        -gains.sum(axis=0),
        A_ub=-gains,
        b_ub=np.zeros(len(gains)),
        A_eq=fixed,
        b_eq=np.zeros(len(fixed)),
        bounds=(-1.0, 1.0),
    )
    scale = abs(gains).sum(axis=0).max(initial=0.0)
    return solution.x if solution.success and -solution.fun > 1e-8 * scale else None
