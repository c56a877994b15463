"""What a model is, what a method may know of it, and what a fit and a method give back."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..folds import Folds
from .checks import check_fit, check_is_model, check_result_of, checked, own_copy
from .results import CVResult, Fit, Refits

__all__ = [
    "CVResult",
    "EstimatingEquation",
    "Fit",
    "FoldProducts",
    "Model",
    "ModelDefaults",
    "NoFiniteOptimum",
    "Refits",
    "check_fit",
    "check_is_model",
    "check_overrides",
    "check_result_of",
    "checked",
    "override",
    "own_copy",
    "with_defaults",
]


class NoFiniteOptimum(ValueError):
    """The objective has no minimum: it keeps falling along a ray."""


@runtime_checkable
class Model(Protocol):
    """F(params, weights), minus a weighted log joint density: weight 1 keeps a site, 0 omits it.

    Any class with these four members is a model. It may also have those of `ModelDefaults`, and
    `derivatives`, an instance of a subclass of `acvlib.derivatives.Derivatives`.
    """

    @property
    def n_sites(self) -> int:
        """How many sites can be left out."""

    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F; twice differentiable by autograd in params (D,) and weights (n_sites,)."""

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(x_t | x outside the fold; params) for each t of the fold, (len(fold),)."""

    def initial_params(self, rng: np.random.Generator | None) -> np.ndarray:
        """A starting point (D,) for the optimiser."""


@runtime_checkable
class EstimatingEquation(Protocol):
    """r(params, weights) = 0 in place of a minimum: multi-stage fits, without symmetry."""

    @property
    def n_sites(self) -> int:
        """As in `Model`."""

    def residual(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """r (D,); differentiable by autograd in params (D,) and weights (n_sites,)."""

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """As in `Model`."""

    def initial_params(self, rng: np.random.Generator | None) -> np.ndarray:
        """As in `Model`."""


class ModelDefaults:
    """What a model may say of itself, and what holds where it says nothing.

    observed (n_sites,): False where a site is missing and can be in no fold; convex: F at w = 1 is
    convex in params, so that Newton's method finds its minimum from any start; quadratic: it does
    so in one step; normalised: F divides by the sum of the weights, so that omitting sites takes no
    curvature away; restart_points(rng, n): a list of n points to fit from, for a model that knows
    better than n times initial_params.
    """

    observed: Any = None
    convex: Any = False
    quadratic: Any = False
    normalised: Any = False
    restart_points: Any = None

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise where the optimum that a fit found is at infinity."""

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """Raise where the optimum that a refit found, a row of params a fold, is at infinity."""

    def check_folds(self, folds: Folds) -> None:
        """Raise where a fold leaves too little to fit."""


def with_defaults(model: Any) -> ModelDefaults:
    """The optional members of a model, filled in for a user's own class that lacks some."""
    if isinstance(model, ModelDefaults):
        return model
    filled = ModelDefaults()
    for name in [name for name in vars(ModelDefaults) if not name.startswith("_")]:
        setattr(filled, name, getattr(model, name, getattr(filled, name)))
    return filled


def override(method: Callable) -> Callable:
    """Mark a method that stands in for one of its base class, which `Derivatives` checks."""
    method.__override__ = True  # type: ignore[attr-defined]
    return method


def check_overrides(cls: type) -> None:
    """Raise TypeError for a public or marked name of a subclass that its bases do not have."""
    known = {name for base in cls.__mro__[1:] for name in vars(base)}
    for name, value in vars(cls).items():
        marked = getattr(value, "__override__", False)
        if name not in known and (marked or not name.startswith("_")):
            near = get_close_matches(name, [k for k in known if k[0] != "_"], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(
                f"{cls.__name__}.{name} overrides nothing of Derivatives{hint} "
                "(names of helpers start with an underscore)"
            )


class FoldProducts(Protocol):
    """H(w_o) of n folds as products with vectors (B, D); `rows` (B,) numbers their folds.

    `rough` is None, or the same, cheaper and less accurate.
    """

    rough: "FoldProducts | None"

    def multiply(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """H(w_o) times each vector, (B, D)."""

    def precondition(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """An approximate H(w_o)^-1 times each vector, (B, D)."""

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """(F (n,), dF/dparams (n, D)) of folds with params of their own."""
