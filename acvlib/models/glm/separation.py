"""Data without a finite optimum: collinear columns, or a direction in which a likelihood rises."""

from typing import Any

import numpy as np
from scipy.optimize import linprog

from ...folds import Folds
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
                raise singular(folds, number) from None


def singular(folds: Folds, number: int | np.integer) -> np.linalg.LinAlgError:
    """The error of a fold that cannot be left out."""
    single = folds.table is not None and folds.table.shape[1] == 1
    name = f"site {folds[number][0]}" if single else f"fold {number}"
    return np.linalg.LinAlgError(
        f"the Hessian is singular without {name}, which alone identifies some parameter: leave it "
        "in, or pass penalty > 0"
    )


def check_start(model: Any) -> None:
    """Raise ValueError where an offset alone is too much for exp."""
    eta = model.predictors(model.columns.inward(model.initial_params()))
    parts = ("loss", "slope", "curvature")
    with np.errstate(all="ignore"):
        values = [getattr(model.likelihood, part)(eta, model.responses) for part in parts]
        finite = np.isfinite(values[0] + values[1].sum(axis=0) + values[2][:, 0, 0])
    if not finite.all():
        row = np.argmin(finite)
        where = f"at eta = {eta[0, row]:.3g} of row {row}, where a fit starts (offset included)"
        raise ValueError(f"the {model.likelihood.name} loss is not finite {where}: rescale")


def check_finite(model: Any, params: np.ndarray, sites: np.ndarray, where: str) -> None:
    """Raise NoFiniteOptimum where params (D,) are large as the sites' responses are separated."""
    z = model.columns.standard[sites]
    eta = model.predictors(model.columns.inward(params), sites) - model.offset[sites]
    furthest = model.likelihood.apart(eta).max()
    if furthest <= EXTREME:
        return
    if separating_direction(*model.likelihood.gains(z, model.responses[..., sites])) is not None:
        separated = model.likelihood.separated.format(furthest)
        raise NoFiniteOptimum(
            f"{where}the {model.likelihood.name} likelihood has no finite maximum: {separated}. "
            "Pass penalty > 0"
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


def check_classes(free: np.ndarray, observed: np.ndarray, folds: Folds) -> None:
    """Raise NoFiniteOptimum for the first fold that leaves responses of one kind only.

    An unpenalised intercept then runs to infinity, whatever the other columns; free as above.
    """
    kinds = [observed & (free == sign) for sign in (-1, 0, 1)]
    falling, both, rising = [kind.sum() for kind in kinds]
    if folds.sizes.max() < both + min(falling, rising):
        return
    omitted = folds.indicator(len(free))
    falling, both, rising = [kind.sum() - omitted @ kind for kind in kinds]
    alone = (both == 0) & (np.minimum(falling, rising) == 0)
    if alone.any():
        fold = np.argmax(alone)
        left = f"fold {fold} leaves {falling[fold] + rising[fold]:.0f} sites to fit"
        remedy = "use fewer sites a fold, or stratified folds"
        raise NoFiniteOptimum(f"{left}, and their responses are all of one class: {remedy}")
