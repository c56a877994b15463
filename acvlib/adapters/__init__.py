"""Models written in JAX or PyTorch: F and the held-out losses, as functions of their arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..checks import check_whole, real_array
from ..folds.checks import observed_mask
from ..model import ModelDefaults, checked
from .checks import check_function, check_functions
from .derivatives import AdaptedDerivatives

DENSE = 300  # parameters up to which Hessians are formed


@dataclass(frozen=True, eq=False, repr=False)
class AdaptedModel(ModelDefaults):
    """F = loss(params, weights) of functions in another library's arrays; float64 throughout.

    Made by `from_jax` and `from_torch`, which explain the arguments. Outside of these functions
    params are flat: `unpack` gives them the form of `start`, and `pack` is its inverse.
    """

    backend: Any = field(repr=False)
    loss: Callable = field(repr=False)
    heldout: Callable = field(repr=False)
    n_sites: int
    start: Any = field(repr=False)
    observed: Any = field(default=None, repr=False)
    convex: bool = False
    normalised: bool = False
    dense_limit: int = DENSE

    def __post_init__(self):
        check_function("loss", self.loss, "params", "weights")
        check_function("heldout", self.heldout, "params", "sites")
        check_whole("n_sites", self.n_sites, 1)
        check_whole("dense_limit", self.dense_limit, 0)
        if self.observed is not None:
            object.__setattr__(self, "observed", observed_mask(self.n_sites, self.observed))
        if not self.initial_params().size:
            raise ValueError(f"start holds no number: {self.start!r:.60}")
        check_functions(self)

    @cached_property
    def _form(self):
        """(the structure of `start`, the shape of each array in it)."""
        leaves, structure = self.backend.flatten(self.start)
        return structure, [np.shape(leaf) for leaf in leaves]

    @property
    def n_params(self) -> int:
        """How many numbers `start` holds."""
        return sum(int(np.prod(shape)) for shape in self._form[1])

    def unpack(self, params: Any) -> Any:
        """Params (D,) in the form of `start`."""
        structure, shapes = self._form
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
        spans = zip(ends[:-1], ends[1:], shapes, strict=True)
        leaves = [params[first:last].reshape(shape) for first, last, shape in spans]
        return self.backend.unflatten(structure, leaves)

    def pack(self, form: Any) -> np.ndarray:
        """Params (D,) of arrays in the form of `start`."""
        leaves, structure = self.backend.flatten(form)
        if structure != self._form[0] or [np.shape(leaf) for leaf in leaves] != self._form[1]:
            raise ValueError(f"{form!r:.60} has not the form of `start`: {self._form}")
        flat = [real_array("start", leaf).ravel() for leaf in leaves]
        return np.concatenate([np.empty(0), *flat])

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F, one number."""
        return self.derivatives.value_and_gradient(params, weights)[0]

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """The held-out losses (len(fold),)."""
        return self.derivatives._rows("heldout", 1, params[None], fold[None])[0][0]

    def initial_params(self, rng: Any = None) -> np.ndarray:
        """Return `start` as (D,)."""
        return self.pack(self.start)

    @cached_property
    def derivatives(self) -> AdaptedDerivatives:
        """Those of the other library in place of autograd's, compiled when first called."""
        return AdaptedDerivatives(self)
