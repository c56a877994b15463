"""Models written in JAX or PyTorch: F and the held-out losses, as functions of their arrays.

(H v, J' v) = d/dt gradients of F(params + t v, weights) in params and in weights

All derivatives are made of grad and jvp, which both libraries have. Folds and vectors go side by
side as lanes of these functions: at most 16, and fewer where their weights and derivatives would
take more than 32 megabytes; what a function itself needs comes on top.
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
from ..folds.folds import Known
from ..model import ModelDefaults
from ..solvers.inverse import DenseFolds, DenseHessian
from ..weighting import Weights
from .checks import check_functions, repeated

LANES = (1, 16)  # rows of one call: each number is compiled, which takes a second or more
HELD = 2**22  # entries of the arguments and results of a call: 32 megabytes


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
            object.__setattr__(self, "observed", Known.of(self).observed)
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
    def derivatives(self) -> "AdaptedDerivatives":
        """Those of the other library in place of autograd's, compiled when first called."""
        return AdaptedDerivatives(self)


class AdaptedDerivatives(Derivatives):
    """Derivatives of one AdaptedModel."""

    def __init__(self, model):
        super().__init__(model)
        of = model.backend

        def loss(params: Any, weights: Any):
            return model.loss(model.unpack(params), weights)

        def valued(params: Any, weights: Any):
            value = loss(params, weights)
            return value, value

        def value_and_gradient(params: np.ndarray, weights: np.ndarray):
            return of.grad(valued, has_aux=True)(params, weights)[::-1]

        def product(params: Any, weights: Any, vector: Any):
            both = of.grad(loss, argnums=(0, 1))
            gradients, products = of.jvp(lambda at: both(at, weights), (params,), (vector,))
            return *products, *gradients

        def heldout(params: np.ndarray, sites: np.ndarray):
            return model.heldout(model.unpack(params), sites)

        functions = (value_and_gradient, product, heldout)
        self._functions = {each.__name__: of.compiled(of.vmap(each)) for each in functions}

    def _rows(self, name, n, *tables, keep=None):
        """The first `keep` results of function `name` for n rows of its arguments.

        Each table is an array (n, ...) or makes one of row numbers.
        """
        entries = self.model.n_params + self.n_sites
        most = max(size for size in LANES if size == 1 or size * entries <= HELD)
        parts = []
        for start in range(0, n, most):
            left = min(n - start, most)
            size = min(size for size in LANES if size >= left)
            rows = np.minimum(np.arange(start, start + size), n - 1)  # the last one fills the rest
            lanes = [table(rows) if callable(table) else table[rows] for table in tables]
            results = self._functions[name](*lanes)[:keep]
            parts.append([np.array(result)[:left] for result in results])
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _products(self, params, weights, vectors, keep=None):
        """(H v, J' v, dF/dparams, dF/dweights) of each vector, at a point or a row for each."""
        n = len(vectors)
        tables = (weights if callable(weights) else repeated(n, weights), vectors)
        return self._rows("product", n, repeated(n, params), *tables, keep=keep)

    def _kept(self, folds):
        """The function of numbers of folds that makes w_o of these."""
        return lambda rows: 1.0 - folds[rows].indicator(self.n_sites).toarray()

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        values, gradients = self._rows("value_and_gradient", 1, params[None], weights[None])
        return float(values[0]), gradients[0]

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        return DenseHessian(self._products(params, weights, np.eye(len(params)), keep=1)[0])

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self._products(params, weights, np.eye(len(params)), keep=2)[1]

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[Any, np.ndarray]:
        n = len(folds)
        found = self._rows("value_and_gradient", n, repeated(n, params), self._kept(folds))
        return found[0], found[1]

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Any = None
    ) -> DenseFolds:
        n, size = len(folds), params.shape[-1]
        fold = np.repeat(np.arange(n), size)
        kept = self._kept(folds)
        units = np.tile(np.eye(size), (n, 1))
        points = repeated(n, params)[fold]
        columns = self._products(points, lambda rows: kept(fold[rows]), units, keep=1)[0]
        return DenseFolds(columns.reshape(n, size, size) + damping * np.eye(size))

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """Folds of one size go together."""
        losses = [np.empty(0)] * len(folds)
        points = repeated(len(folds), params)
        for size in np.unique(folds.sizes):
            alike = np.flatnonzero(folds.sizes == size)
            sites = np.array([folds[fold] for fold in alike])
            (rows,) = self._rows("heldout", len(alike), points[alike], sites)
            for fold, row in zip(alike, rows, strict=True):
                losses[fold] = row
        return folds.pick(losses)
