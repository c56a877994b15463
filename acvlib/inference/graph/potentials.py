"""Potentials as the kernels take them."""

from typing import Any

import numpy as np

from ...checks import check_kind, real_or_box
from .elimination import EliminationOrder


def check_potentials(
    node: Any, edge: Any, elimination: EliminationOrder, names: tuple[str, str] = ("node", "edge")
) -> tuple[np.ndarray, np.ndarray]:
    """Return node (n, K) and edge (m, K, K) as finite floats, or autograd's boxes of any numbers.

    Raises ValueError where they do not fit the order of elimination, TypeError if that is none.
    """
    check_kind("elimination", elimination, EliminationOrder)
    k = elimination.n_states
    of_nodes = check_shape(names[0], node, (len(elimination.site), k))
    return of_nodes, check_shape(names[1], edge, (len(elimination.ends), k, k))


def check_shape(name: str, values: Any, shape: tuple) -> np.ndarray:
    """Return real numbers, or a box, of this shape; ValueError for others."""
    values = real_or_box(name, values)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}; this elimination is for {shape}")
    return values
