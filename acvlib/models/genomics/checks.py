"""What the genomics model refuses: data, folds and optima that leave something undetermined."""

import numpy as np

HALF_A_GENE = 0.5  # a cluster of fewer genes counts as empty
EXACT_FIT = 1e-20  # squared residuals, as a share of the gene's squares, that are rounding errors


class SingularRegression(ValueError):
    """A gene's regression is not determined by the times it is left with."""


class EmptyCluster(ValueError):
    """A cluster lost its genes: the clustering's optimum is at infinity."""


def check_data(model):
    """Raises ValueError for a model that cannot be fitted, with the offending numbers."""
    shape, basis = model.expression.shape, model.basis
    if len(shape) != 3 or basis.ndim != 2 or shape[1] != len(basis):
        raise ValueError(
            f"expression {shape} must be genes by times by replicates, basis {basis.shape} times by p"
        )
    for name, value in {"expression": model.expression, "basis": basis}.items():
        if not np.isfinite(value).all():
            raise ValueError(
                f"{name} holds {(~np.isfinite(value)).sum()} values that are NaN or infinite"
            )
    if min(model.regularisation, model.centroid_precision) < 0 or model.concentration < 1:
        raise ValueError("regularisation and centroid_precision must be >= 0, concentration >= 1")
    if not 2 <= model.n_clusters <= shape[0]:
        raise ValueError(
            f"n_clusters = {model.n_clusters} must be from 2 to the number of genes, {shape[0]}"
        )
    if model.assigned_by not in ("all times", "kept times"):
        raise ValueError(f"assigned_by = {model.assigned_by!r}: one of 'all times', 'kept times'")
    _check_regressions(model, np.arange(shape[1]), "the data")


def check_folds(model, folds):
    """Raises SingularRegression where a fold leaves too few times, or genes that they fit exactly."""
    for number, fold in enumerate(folds):
        _check_regressions(model, np.delete(np.arange(model.n_sites), fold), f"fold {number}")


def check_clusters(model, params, who="the fit"):
    """Raises EmptyCluster for a cluster with less than half a gene."""
    sizes = len(model.expression) * model.unpack(params).shares
    if sizes.min() < HALF_A_GENE:
        raise EmptyCluster(
            f"{who} leaves cluster {sizes.argmin()} with {sizes.min():.2g} of {len(model.expression)} genes: "
            f"take fewer clusters than {model.n_clusters}, or pass concentration > 1"
        )


def _check_regressions(model, kept, who):
    n_basis, n_replicates = model.basis.shape[1], model.expression.shape[2]
    rank = np.linalg.matrix_rank(model.basis[kept])
    if rank < n_basis or n_replicates * len(kept) <= n_basis:
        raise SingularRegression(
            f"{who} leaves {len(kept)} times of {n_replicates} replicates, which determine {rank} of {n_basis} "
            "coefficients and need one observation more than those: leave out fewer times, or lower df"
        )
    _check_genes(model, kept, who)


def _check_genes(model, kept, who):
    weights = np.isin(np.arange(model.n_sites), kept) * 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        left = model.stage_one.squares(model.stage_one.solve(weights).coefficients, weights)
    exact = np.flatnonzero(left <= EXACT_FIT * (model.expression[:, kept] ** 2).sum(axis=(1, 2)))
    if exact.size:
        raise SingularRegression(
            f"{who} leaves {exact.size} genes without residual variance (first: gene {exact[0]}), whose precision "
            "is infinite: leave these genes out"
        )
