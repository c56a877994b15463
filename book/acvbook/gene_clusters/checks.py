"""What the genomics model refuses: data, folds and optima that leave something undetermined."""

from typing import Any

import numpy as np

from acvlib.folds import Folds

HALF_A_GENE = 0.5  # a cluster of fewer genes counts as empty
EXACT_FIT = 1e-20  # squared residuals, as a share of the gene's squares, that are rounding errors


class SingularRegression(ValueError):
    """A gene's regression is not determined by the times it is left with."""


class EmptyCluster(ValueError):
    """A cluster lost its genes: the clustering's optimum is at infinity."""


def check_data(model: Any) -> None:
    """Raise ValueError for a model that cannot be fitted, with the offending numbers."""
    shape = model.expression.shape
    if len(shape) != 3 or model.basis.ndim != 2 or shape[1] != len(model.basis):
        raise ValueError(
            f"expression {shape} must be genes by times by replicates, "
            f"basis {model.basis.shape} times by p"
        )
    for name in ("expression", "basis"):
        n_bad = np.sum(~np.isfinite(getattr(model, name)))
        if n_bad:
            raise ValueError(f"{name} holds {n_bad} values that are NaN or infinite")
    if not min(model.regularisation, model.centroid_precision) >= 0 or not model.concentration >= 1:
        raise ValueError("regularisation and centroid_precision must be >= 0, concentration >= 1")
    if not 2 <= model.n_clusters <= shape[0]:
        raise ValueError(
            f"n_clusters = {model.n_clusters} must be from 2 to the number of genes, {shape[0]}"
        )
    if model.assigned_by not in ("all times", "kept times"):
        raise ValueError(f"assigned_by = {model.assigned_by!r}: one of 'all times', 'kept times'")
    _check_regressions(model, np.empty(0, int), "the data")


def check_folds(model: Any, folds: Folds) -> None:
    """Raise SingularRegression where a fold leaves too few times, or fits genes exactly."""
    for number, fold in enumerate(folds):
        _check_regressions(model, fold, f"fold {number}")


def check_clusters(model: Any, params: np.ndarray, who: str = "the fit") -> None:
    """Raise EmptyCluster for a cluster with less than half a gene."""
    n_genes = len(model.expression)
    sizes = n_genes * model.unpack(params).shares
    if sizes.min() < HALF_A_GENE:
        raise EmptyCluster(
            f"{who} leaves cluster {sizes.argmin()} with {sizes.min():.2g} of {n_genes} genes: "
            f"take fewer clusters than {model.n_clusters}, or pass concentration > 1"
        )


def _check_regressions(model, fold, who):
    kept = np.delete(np.arange(model.n_sites), fold)
    n_basis = model.basis.shape[1]
    n_replicates = model.expression.shape[2]
    rank = np.linalg.matrix_rank(model.basis[kept])
    if rank < n_basis or n_replicates * len(kept) <= n_basis:
        raise SingularRegression(
            f"{who} leaves {len(kept)} times of {n_replicates} replicates, which determine {rank} "
            f"of {n_basis} coefficients and need one observation more than those: leave out fewer "
            "times, or lower df"
        )
    weights = np.isin(np.arange(model.n_sites), kept).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        coefficients = model.stage_one.solve(weights).coefficients
    squares = model.stage_one.squares(coefficients, weights)
    exact = squares <= EXACT_FIT * (model.expression[:, kept] ** 2).sum(axis=(1, 2))
    if exact.any():
        raise SingularRegression(
            f"{who} leaves {exact.sum()} genes without residual variance (first: gene "
            f"{exact.argmax()}), whose precision is infinite: leave these genes out"
        )
