"""Models written in JAX or PyTorch: F and the held-out losses, as functions of their arrays.

H, J and gradients are those of the library: both have grad, jacrev, hessian and vmap. Folds go side
by side as lanes of one call, 16 at a time, or one where J has more than `HELD` entries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from ..checks import real_array
from ..declared import Count, Flag, Is, Params, Rng, declared
from ..derivatives import Derivatives
from ..folds import Fold, Folds
from ..folds.sites import Known
from ..model import ModelDefaults
from ..parallel import pieces
from ..solvers.inverse import DenseFolds, DenseHessian
from ..weighting import Weights
from .checks import check_functions, halves, repeated

LANES = 16  # rows of one call, or 1: each number is compiled, which takes a second or more
CHANGED = (
    "what heldout uses has changed since the model was made: give it copies, and bind what a loop "
    "names: lambda params, sites, X=X: ..."
)
HELD = 2**22  # entries, 32 megabytes, of what each lane may hold


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
            known = Known.of(self)
            self.__dict__.update(observed=known.observed, index=known.index)
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
        return len(self.initial_params())

    def unpack(self, params: Any) -> Any:
        """Params (D,) in the form of `start`."""
        structure, shapes = self._form
        leaves = []
        end = 0
        for shape in shapes:
            start, end = end, end + int(np.prod(shape))
            leaves.append(params[start:end].reshape(shape))
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
        return self.derivatives._rows("heldout", params[None], fold[None])[0][0]

    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Return `start` as (D,)."""
        return self.pack(self.start)

    @cached_property
    def derivatives(self) -> "AdaptedDerivatives":
        """Those of the other library in place of autograd's, compiled when first called."""
        return AdaptedDerivatives(self)


class AdaptedDerivatives(Derivatives):
    """Derivatives of one AdaptedModel."""

    def __init__(self, model):
        super().__init__(model)
        of = model.backend

        def heldout(params: Any, sites: Any):
            return model.heldout(model.unpack(params), sites)

        start, ones = model.initial_params(), np.ones(self.n_sites)
        loss = of.frozen(lambda params, w: model.loss(model.unpack(params), w), start, ones)

        def valued(params: Any, weights: Any):
            value = loss(params, weights)
            return value, value

        functions = {
            "value_and_gradient": lambda *at: of.grad(valued, has_aux=True)(*at)[::-1],
            "terms": of.grad(loss, argnums=1),
            "hessian": of.hessian(loss),
            "cross": of.jacrev(of.grad(loss), argnums=1),
            "heldout": heldout,
        }
        self._functions = {name: of.compiled(of.vmap(each)) for name, each in functions.items()}
        self._sizes: set[int] = set()  # of folds, each compiled on its own

    @cached_property
    def at_first(self) -> np.ndarray:
        """Held-out losses when first asked for: by a fold of a size that checks compile anyway."""
        start = self.model.initial_params()
        near = start + 0.1 * np.random.default_rng(0).standard_normal(len(start))
        half = halves(Known.of(self.model).numbers)[0]
        return self._rows("heldout", repeated(2, near), repeated(2, half))[0]

    def _rows(self, name: str, *tables: Any) -> list[np.ndarray]:
        """The results of a function for each row of its arguments.

        Each table is an array (n, ...) or, but for the first, makes one of row numbers.
        """
        n = len(tables[0])
        side_by_side = n > 1 and self.model.n_params * self.n_sites <= HELD
        size = LANES if side_by_side else 1
        parts = []
        for part in pieces(n, size):
            rows = np.minimum(np.arange(part.start, part.start + size), n - 1)  # the last fills up
            lanes = [table(rows) if callable(table) else table[rows] for table in tables]
            results = self._functions[name](*lanes)
            parts.append([np.array(result)[: part.stop - part.start] for result in results])
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _of_folds(self, name, params, folds):
        """The results at a point, or a row for each fold, and the weights w_o."""
        weights = lambda rows: 1.0 - folds[rows].indicator(self.n_sites).toarray()  # noqa: E731
        return self._rows(name, repeated(len(folds), params), weights)

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        values, gradients = self._rows("value_and_gradient", params[None], weights[None])
        return float(values[0]), gradients[0]

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        return DenseHessian(self._rows("hessian", params[None], weights[None])[0][0])

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self._rows("cross", params[None], weights[None])[0][0]

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[Any, np.ndarray]:
        objectives, gradients = self._of_folds("value_and_gradient", params, folds)
        return objectives, gradients

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Any = None
    ) -> DenseFolds:
        (matrices,) = self._of_folds("hessian", params, folds)
        return DenseFolds(matrices + damping * np.eye(params.shape[-1]))

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """Folds of one size go together."""
        losses = [np.empty(0)] * len(folds)
        points = repeated(len(folds), params)
        for size in np.unique(folds.sizes):
            if size not in self._sizes:
                self._sizes.add(size)
                anew = AdaptedDerivatives(self.model)  # whose functions are read once more
                if not np.array_equal(anew.at_first, self.at_first, equal_nan=True):
                    raise ValueError(CHANGED)
            alike = np.flatnonzero(folds.sizes == size)
            sites = np.array([folds[fold] for fold in alike])
            (rows,) = self._rows("heldout", points[alike], sites)
            for fold, row in zip(alike, rows, strict=True):
                losses[fold] = row
        return folds.pick(losses)
