"""What a model is, what a method may know of it, and what solvers give back."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np

from .checks import brief, one_line
from .declared import Check, Sizes
from .folds import Folds


@runtime_checkable
class HasSites(Protocol):
    """What can be left out, and how it is scored."""

    @property
    def n_sites(self) -> int:
        """How many sites can be left out."""

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(x_t | x outside the fold; params) for each t of the fold, (len(fold),)."""

    def initial_params(self, rng: np.random.Generator | None) -> np.ndarray:
        """A starting point (D,) for the optimiser."""


@runtime_checkable
class Model(HasSites, Protocol):
    """F(params, weights), minus a weighted log joint density: weight 1 keeps a site, 0 omits it.

    Any class with these four members is a model. It may also have those of `ModelDefaults`, and
    `derivatives`, an instance of a subclass of `acvlib.derivatives.Derivatives`.
    """

    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F; twice differentiable by autograd in params (D,) and weights (n_sites,)."""


@runtime_checkable
class EstimatingEquation(HasSites, Protocol):
    """r(params, weights) = 0 in place of a minimum: multi-stage fits, without symmetry."""

    def residual(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """r (D,); differentiable by autograd in params (D,) and weights (n_sites,)."""


class ModelDefaults:
    """What a model may say of itself, and what holds where it says nothing.

    observed (n_sites,): False where a site is missing and can be in no fold; index: of pandas, the
    names of sites that have some, and sites: what they are, such as "rows" or "steps": folds of
    others are refused; convex: F at w = 1 is convex in params, so that Newton's method finds its
    minimum from any start; quadratic: it does so in one step;
    normalised: F divides by the sum of the weights, so that omitting sites takes no curvature away;
    restart_points(rng, n): a list of n points to fit from, for a model that knows better than n
    times initial_params; restarts_climbed: these are near optima, and `fit` tries several of them;
    further_starts(): more points to fit from, of which the lowest optimum is taken;
    default_priors(params): {prior: (its gradient (D,), how to widen it)} of those that
    nobody chose; matched(params, others): params (D,) of the same law with its states numbered as
    those of others.
    """

    __repr__ = one_line
    index: Any = None
    observed: Any = None
    sites: Any = ""
    convex: Any = False
    quadratic: Any = False
    normalised: Any = False
    restart_points: Any = None
    restarts_climbed: Any = False
    further_starts: Any = None
    default_priors: Any = None
    matched: Any = None

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
        default = getattr(filled, name)
        value = getattr(model, name, None)
        value = default if value is None else value
        is_flag = default is False
        is_usable = isinstance(value, int | np.bool_) if is_flag else callable(value)
        if not is_usable and value is not default and name not in ("index", "observed", "sites"):
            kind = "True or False" if is_flag else "a method"
            has = f"{type(model).__name__}.{name} is {brief(value)}"
            raise TypeError(f"{has}: acvlib reads {kind} there (ModelDefaults). Rename yours")
        setattr(filled, name, value)
    return filled


@dataclass
class Refits:
    """Where n refits ended, one entry a fold.

    params (n, D); decrement: the distance that was left, in standard errors; indefinite: whether
    the last Hessian was; steps; converged; residual: |gradient|, each None where it is not known;
    evaluations: what was computed.
    """

    params: np.ndarray
    decrement: Any = None
    indefinite: Any = None
    steps: Any = None
    converged: Any = None
    residual: Any = None
    evaluations: Counter = field(default_factory=Counter)

    @classmethod
    def unfinished(cls, n: int, n_params: int) -> "Refits":
        """None of n refits yet: solvers write here as they go."""
        return cls(
            params=np.full((n, n_params), np.nan),
            decrement=np.full(n, np.inf),
            indefinite=np.zeros(n, bool),
            steps=np.zeros(n, int),
            converged=np.zeros(n, bool),
            residual=np.full(n, np.nan),
        )

    def part(self, rows: slice) -> "Refits":
        """Those of some folds, in the same memory, with the same `evaluations`."""
        views = {name: each[rows] for name, each in vars(self).items() if name != "evaluations"}
        return Refits(**views, evaluations=self.evaluations)

    def take(self, rows: slice | np.ndarray, refits: "Refits") -> None:
        """Write what others know of some folds."""
        for name, values in vars(refits).items():
            if name != "evaluations" and values is not None:
                getattr(self, name)[rows] = values
        self.evaluations.update(refits.evaluations)


class IsModel(Check):
    """A model, which may say n_params."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Any:
        if isinstance(value, type) or not hasattr(value, "n_sites"):
            check_is_model(value)  # which says what is missing; F alone has derivatives, too
        sizes.owner = value
        return value


AModel = Annotated[Any, IsModel()]


def check_is_model(model: Any) -> None:
    """Raise TypeError unless an object has what a `Model` or an `EstimatingEquation` has."""
    members = ("n_sites", "heldout_loss", "initial_params")
    if isinstance(model, type) or not all(hasattr(model, name) for name in members):
        lacking = f"{model!r:.60} has no {', '.join(members)}"
        raise TypeError(f"{lacking}: give a model, of acv.models or of your own (acv.Model)")
