"""What every regression is given: columns, an intercept, and numbers one a row."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from ...checks import real_array, real_number
from ...protocol import own_copy


def with_intercept(X: Any, intercept: Any) -> tuple[np.ndarray, int]:
    """(read-only [1, X] or X (n, D), how many columns come first). Raises as `GLM` does."""
    if issparse(X):
        raise TypeError("X is sparse: GLM forms dense Hessians; pass X.toarray()")
    X = real_array("X", X, 2)
    head = real_number("intercept", intercept)
    if head not in (0.0, 1.0):
        raise ValueError(f"intercept = {head:g}: must be True or False")
    design = np.column_stack([np.ones((len(X), int(head))), X])
    design.setflags(write=False)
    return design, int(head)


def column(name: str, values: Any, n_rows: int) -> np.ndarray:
    """A read-only copy of one number, or of one for each row, as (n_rows,)."""
    given = real_array(name, values)
    if given.shape not in ((), (n_rows,)):
        raise ValueError(f"{name} {given.shape} must be one number, or ({n_rows},): one a row")
    return own_copy(np.broadcast_to(given, n_rows), name=name)


def sample_weights(values: Any, n_rows: int) -> np.ndarray:
    """A read-only copy of weights >= 0, (n_rows,), one of them positive."""
    weights = column("sample_weight", values, n_rows)
    if (weights < 0.0).any():
        raise ValueError(f"sample_weight {weights.min()} must be >= 0")
    if not (weights > 0.0).any():
        raise ValueError("no site has a positive sample_weight: nothing to fit")
    return weights
