"""Derivatives of F at many params and weights at once, by the transformations JAX and torch share.

(H v, J' v) = d/dt gradients of F(params + t v, weights) in params and in weights
J d = d/dt gradient of F(params, weights + t d) in params
"""

from collections.abc import Callable
from typing import Any

import numpy as np

LANES = (1, 16)  # rows of one call: each number is compiled, which takes a second or more
HELD = 2**22  # entries of the arguments and results of a call: 32 megabytes


class Calculus:
    """Functions of rows of arrays, by name; each compiled, for a number of lanes, when called."""

    def __init__(self, backend: Any, loss: Callable, heldout: Callable):
        self.backend = backend
        self.raw = {"loss": loss, "heldout": heldout}
        self._made = _transformed(backend, loss) | {"heldout": heldout}
        self._compiled: dict[str, Callable] = {}

    def __call__(
        self, name: str, n: int, *tables: Any, entries: int = 1, keep: int | None = None
    ) -> list:
        """Return the results of function `name` for n rows of its arguments, each table[rows].

        entries: of the arguments and results of one row, which bound how many go together; keep:
        how many of its results are wanted, all unless told.
        """
        if name not in self._compiled:
            batched = self.backend.vmap(self._made[name])
            self._compiled[name] = self.backend.compiled(batched)
        most = max(size for size in LANES if size == 1 or size * entries <= HELD)
        parts = []
        for start in range(0, n, most):
            left = min(n - start, most)
            size = min(size for size in LANES if size >= left)
            rows = np.minimum(np.arange(start, start + size), n - 1)  # the last one fills the rest
            found = self._compiled[name](*(table[rows] for table in tables))
            parts.append([part[:left] for part in found[:keep]])
        return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _transformed(of, loss):
    """Functions of one row each."""

    def valued(params, weights):
        value = loss(params, weights)
        return value, value

    def value_and_gradient(params, weights):
        return of.grad(valued, has_aux=True)(params, weights)[::-1]

    def product(params, weights, vector):
        both = of.grad(loss, argnums=(0, 1))
        return of.jvp(lambda at: both(at, weights), (params,), (vector,))[1]

    def cross_product(params, weights, direction):
        return of.jvp(lambda at: of.grad(loss)(params, at), (weights,), (direction,))[1]

    return {each.__name__: each for each in (value_and_gradient, product, cross_product)}
