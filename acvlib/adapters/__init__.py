"""Models written in JAX or PyTorch: F and the held-out losses, as functions of their arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from ..checks import real_array
from ..declared import Count, Flag, Is, Rng, declared
from ..folds.checks import Fold, observed_mask
from ..model import ModelDefaults, Params
from ..weighting import Weights
from .checks import check_functions
from .derivatives import AdaptedDerivatives


@declared
@dataclass(frozen=True, eq=False, repr=False)
class AdaptedModel(ModelDefaults):
    """F = loss(params, weights) of functions in another library's arrays; float64 throughout.

    Made by `from_jax` and `from_torch`. Outside of these functions params are flat: `unpack` gives
    them the form of `start`, and `pack` is its inverse. Hessians are formed.

    Parameters
    ----------
    loss : (params, weights (n_sites,)) -> F, one number; weight 0 takes a site out
    heldout : (params, sites) -> -log p(x_t | x outside the sites) of each, (len(sites),), in any
        order of the sites
    start : where a fit starts, an array or any tree of arrays: the form of params
    observed, convex, normalised : as in `acvlib.model.ModelDefaults`

    Raises
    ------
    TypeError : the library cannot trace, differentiate twice or batch a function
    ValueError : a result of wrong shape or precision; F that is not finite or not twice
        differentiable at `start`, or that ignores the weight of a site; random numbers in a
        function; held-out losses of other sites than are asked for
    """

    backend: Any = field(repr=False)
    loss: Annotated[Callable, Is()] = field(repr=False)
    heldout: Annotated[Callable, Is()] = field(repr=False)
    n_sites: Count
    start: Any = field(repr=False)
    observed: Any = field(default=None, repr=False)
    convex: Flag = False
    normalised: Flag = False

    def __post_init__(self):
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

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F, one number."""
        return self.derivatives.value_and_gradient(params, weights)[0]

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """The held-out losses (len(fold),)."""
        return self.derivatives._rows("heldout", 1, params[None], fold[None])[0][0]

    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Return `start` as (D,)."""
        return self.pack(self.start)

    @cached_property
    def derivatives(self) -> AdaptedDerivatives:
        """Those of the other library in place of autograd's, compiled when first called."""
        return AdaptedDerivatives(self)
