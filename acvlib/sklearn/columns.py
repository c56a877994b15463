"""Fewer columns that say the same, of more columns than rows and of collinear ones.

And whether rows that have names stand in one order.
"""

from typing import Any

import numpy as np
from scipy.linalg import qr, svd
from scipy.linalg.lapack import dpocon, dpotrf, dtrtri
from scipy.sparse import issparse
from scipy.sparse.linalg import aslinearoperator

from ..checks import index_of
from ..parallel import blas_for
from ..weighting import site_weights

LARGEST = 2**31  # bytes of a dense X that is made of a sparse one
COLLINEAR = 1e-12  # spread over the largest, of directions that X has not, but for rounding
SINGULAR = 1e-6  # reciprocal condition of a matrix from which on its factor has lost digits


def check_order(things: dict) -> None:
    """Raise ValueError where rows of two have the same names in another order, as in pandas.

    scikit-learn takes them by place, and so did the fit. Other names, as of a default index, pass.
    """
    indices = {name: index_of(thing) for name, thing in things.items()}
    first = next((name for name, index in indices.items() if index is not None), "")
    rows = indices.get(first)
    for name, index in indices.items():
        if index is None or len(index) != len(rows) or index.equals(rows):
            continue
        if index.isin(rows).all() and rows.isin(index).all():
            by_name = f"pass {name}.loc[{first}.index], to fit as well"
            by_place = f"{name}.to_numpy() if its rows stand as those of {first} do"
            reason = "in another order, and scikit-learn takes rows by place"
            raise ValueError(f"{name} has the rows of {first} {reason}: {by_name}, or {by_place}")


def reduced(estimator: Any, X: Any, settings: dict, weights: Any) -> tuple[np.ndarray, Any]:
    """(columns, B): X itself and None, or X B, of which refits say the same: beta = B gamma.

    Refits of any rows stay in the span of the rows of X: by the ridge, or as LinearRegression has
    the coefficients of least norm. Where X has more columns than that has directions, B is a basis,
    |gamma| = |beta|: X X' = U'U, B = X' U^-1 of a penalised X with more columns than rows; else the
    directions of X without its level, columns in units of their size, that are not rounding, or as
    many as LinearRegression has kept by its `tol`.
    """
    penalised = settings.get("penalty", settings.get("site_penalty")) > 0.0
    n, p = X.shape
    if penalised and p > n:
        upper = _factor(X @ X.T)
        if upper is not None:
            inverse, _ = dtrtri(upper)
            return upper.T, aslinearoperator(X.T) @ aslinearoperator(inverse)
    if issparse(X):
        if 8 * n * p > LARGEST:
            raise TypeError(
                f"X is sparse, and would take {8e-9 * n * p:.1f} GB as a dense array, which is "
                "needed unless it has more columns than rows, of which none repeats another: "
                "reduce the columns by a TruncatedSVD in a Pipeline"
            )
        X = X.toarray()
    rank = getattr(estimator, "rank_", None)  # of a LinearRegression to dense X
    if rank == p:
        return X, None
    weights = site_weights(1.0 if weights is None else weights, n)
    level = np.average(X, axis=0, weights=weights) if estimator.fit_intercept else 0.0
    rows = (X - level) * np.sqrt(weights)[:, None]
    lengths = np.ones(p)
    if rank is None:  # rounding is relative to what X is with its level
        lengths = np.sqrt(weights @ X**2)
        lengths[lengths == 0.0] = 1.0
        rows /= lengths
        if n >= p and _factor(rows.T @ rows) is not None:
            return X, None
    sizes, directions = svd(rows, full_matrices=False)[1:]
    rank = max(1, np.sum(sizes > COLLINEAR * sizes[0]) if rank is None else rank)
    if rank == p:
        return X, None
    order = np.argsort(-lengths)  # for the digits of short columns beside long ones
    basis = np.empty((p, rank))
    long_first = (directions[:rank] * lengths).T[order]
    basis[order] = qr(long_first, mode="economic", pivoting=True)[0]
    return X @ basis, aslinearoperator(basis)


def _factor(products):
    """U of U'U = products, or None where that has lost digits."""
    products = products.toarray() if issparse(products) else products
    with blas_for(len(products) ** 3):
        upper, failed = dpotrf(products)
        condition = 0.0 if failed else dpocon(upper, np.linalg.norm(products, 1))[0]
    return upper if condition > SINGULAR else None
