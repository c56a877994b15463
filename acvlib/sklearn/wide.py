"""More columns than rows: the columns in which a penalised model is as small as the rows are many.

Refits of any rows stay in the span of the rows of X: beta = B gamma, B (p, n) orthonormal. So the
model has the n columns X B, the same penalty |gamma|^2 = |beta|^2 and the same folds.
"""

from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dpocon, dpotrf, dtrtri
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

LARGEST = 2**31  # bytes of a dense X that is made of a sparse one
SINGULAR = 1e-6  # reciprocal condition of X X' from which on its factor has lost the small columns


def dense(X: Any) -> np.ndarray:
    """X as a dense array. Raises TypeError where that is too large."""
    if not issparse(X):
        return X
    size = 8 * X.shape[0] * X.shape[1]
    if size > LARGEST:
        raise TypeError(
            f"X is sparse, and would take {size / 1e9:.1f} GB as a dense array, which is needed "
            "unless it has more columns than rows, of which none repeats another: reduce the "
            "columns by a TruncatedSVD in a Pipeline"
        )
    return X.toarray()


def in_row_span(X: Any) -> tuple[np.ndarray, LinearOperator]:
    """(X B (n, n), B). No direction is left out: what X has none of is penalised to 0.

    X X' = U'U, B = X' U^-1; where that loses digits, a QR of X' that keeps them whatever the sizes
    of its rows, as these are sorted.

    Source: Cox and Higham (1998), Stability of Householder QR for weighted least squares.
    """
    products = X @ X.T
    products = products.toarray() if issparse(products) else products
    upper, failed = dpotrf(products)
    if not failed and dpocon(upper, np.linalg.norm(products, 1))[0] > SINGULAR:
        inverse, _ = dtrtri(upper)
        return upper.T, aslinearoperator(X.T) @ aslinearoperator(inverse)
    X = dense(X)
    order = np.argsort(-abs(X).max(axis=0))
    basis, upper, pivots = qr(X.T[order], mode="economic", pivoting=True)
    columns = np.empty_like(upper)
    columns[pivots] = upper.T
    return columns, aslinearoperator(basis[np.argsort(order)])
