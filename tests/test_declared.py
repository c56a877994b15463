"""Arguments are checked by what they are annotated with."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
from autograd import grad
from oracles.wrappers import raises

import acvlib as acv
from acvlib.declared import Count, Flag, Is, OneOf, Params, Real, Rng, Whole, declared
from acvlib.folds import Fold, Folds, ModelFolds
from acvlib.weighting import Weights

X = np.arange(6).reshape(3, 2)
y = [1, 0, 1]


@declared
@dataclass(frozen=True)
class Regression:
    X: Annotated[np.ndarray, Real("n p")]
    y: Annotated[np.ndarray, Real("n")]
    penalty: Annotated[float | np.ndarray, Real("", "p", least=0.0)] = 0.0
    exposure: Annotated[np.ndarray, Real("n", above=0.0)] | None = None
    loss: Annotated[str, OneOf("square", "ranking")] = "square"
    step: acv.declared.Positive = 1.0
    ridge: acv.declared.NonNegative = 0.0
    n_steps: Count = 1
    verbose: Flag = False
    link: Annotated[Callable[..., float], Is()] | None = None
    name: Annotated[str | int, Is()] = "a"

    def __post_init__(self):
        assert isinstance(self.X, np.ndarray)  # checked before

    @property
    def n_params(self) -> int:
        return self.X.shape[1]

    @declared
    def objective(self: Any, params: Params, rng: Rng | None = None) -> Any:
        return np.sum(params**2) if rng is None else rng.random()


@declared
def level(shares: Annotated[np.ndarray, Real("n")], *, k: Annotated[int, Whole(1, "n")] = 1) -> int:
    return k


@declared
def largest(first: Annotated[Regression, Is()], *others: Annotated[Regression, Is()]) -> int:
    return 1 + len(others)


@declared
def square(table: Annotated[np.ndarray, Real("n n")]) -> int:
    return len(table)


@declared
def inside(share: Annotated[float, Real("", above=0.0, below=1.0)]) -> float:
    return share


@dataclass
class Mean:
    n_sites: int = 3
    observed: Any = None
    normalised: bool = True

    @declared
    def loss(
        self: Any, weights: Weights | None = None, fold: Fold = None, folds: ModelFolds = None
    ) -> Any:
        return weights, fold, folds


MODEL = Regression(X, y)


WRONG = [
    ({"X": [1, 2, 3]}, r"X of shape \(3,\) must be \(n, p\)"),
    ({"X": [[1, np.nan]]}, r"X must be finite.*nan at \[0, 1\]"),
    ({"X": [["a", "b"]]}, "X must be real numbers"),
    ({"X": np.empty((0, 2))}, "X is empty: n = 0"),
    ({"y": [1.0]}, r"y of shape \(1,\) must be \(n,\), n = 3 as in X"),
    ({"penalty": [1, 2, 3]}, r"penalty of shape \(3,\) must be one number or \(p,\), p = 2"),
    ({"penalty": [1, -2]}, r"penalty must be >= 0; it holds -2 at \[1\]"),
    ({"penalty": -2}, "penalty must be >= 0; it holds -2"),
    ({"penalty": None}, "penalty"),
    ({"exposure": [1, 0, 1]}, r"exposure must be above 0; it holds 0 at \[1\]"),
    ({"loss": "hinge"}, "unknown loss 'hinge': one of square, ranking"),
    ({"step": 0.0}, "step must be above 0; it holds 0"),
    ({"ridge": -1}, "ridge must be >= 0; it holds -1"),
    ({"n_steps": 1.5}, "n_steps = 1.5: must be a whole number"),
    ({"verbose": 1}, "verbose must be of type bool"),
    ({"name": 0.5}, "name must be of type str or int"),
    ({"link": 3}, "link must be of type Callable"),
    ({"lost": 1}, "^Regression: .*unexpected keyword.* 'lost'; it takes X, y,"),
    (lambda: replace(MODEL, y=[1]), "n = 3 as in X"),
    (lambda: MODEL.objective([1, 2, 3]), r"\(3,\) must be \(n_params,\), n_params = 2"),
    (lambda: MODEL.objective([1, 2], "a"), "rng = 'a'"),
    (lambda: Mean().loss(weights=[1, 2]), r"weights have shape \(2,\), not \(3,\)"),
    (lambda: Mean().loss(weights=[1, 2, -1]), "weight -1.0 of site 2 must be finite and >= 0"),
    (lambda: Mean().loss(weights=[0, 0, 0]), "weights sum to 0.0"),
    (lambda: Mean().loss(fold=[1, 1]), "holds site 1 more than once"),
    (lambda: Mean().loss(fold=[3]), "holds site 3, outside 0 ... 2"),
    (lambda: Mean().loss(folds=[[1]]), "folds must be of type Folds"),
    (lambda: Mean().loss(folds=Folds([[0, 1, 2]])), "leaves out all 3 observed sites"),
    (lambda: level([1, 2], k=3), "k = 3 of 2 n: must be a whole number from 1 to 2"),
    (lambda: level([1], 2), "positional argument"),
    (lambda: square(np.ones((3, 4))), r"table of shape \(3, 4\) must be \(n, n\)"),
    (lambda: largest(MODEL, MODEL, 3), "others must be of type Regression"),
    (lambda: inside(1), "share must be above 0 and below 1; it holds 1"),
    (lambda: Real("n, p"), "shapes"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_what_is_wrong_is_named(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call() if callable(call) else Regression(**{"X": X, "y": y} | call)


def test_what_is_right_is_taken_arrays_as_floats_of_their_own_and_infinite_where_they_may():
    weights, fold, folds = Mean().loss([1, 0, 1], [2], Folds([[2]]))
    assert (weights.dtype, fold.tolist(), len(folds)) == (float, [2], 1)
    assert Regression(X, y, exposure=None).exposure is None
    assert replace(MODEL, y=[2, 2, 2]).y.sum() == 6.0
    assert (level([1, 2], k=2), square(np.ones((2, 2))), largest(MODEL, MODEL, MODEL)) == (2, 2, 3)
    assert MODEL.objective([1, 2]) == 5.0
    assert MODEL.objective(params=[1, 2], rng=0) == np.random.default_rng(0).random()
    assert grad(MODEL.objective)(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    for edge in (np.inf, -np.inf, np.nan):
        params = np.array([edge, 1.0])
        found = Regression(X, y).objective(params)
        assert np.array_equal(found, params[0] ** 2 + 1.0, equal_nan=True)
    table = np.ones((3, 2))
    model = Regression(table, y, [1, 2])
    table[0] = 7.0
    assert model.X.max() == 1.0
    assert [model.X.dtype, model.y.dtype, model.penalty.dtype] == [float] * 3
    assert [model.X.flags.writeable, model.y.flags.writeable] == [False] * 2
    assert isinstance(Regression(X, y, np.float32(2)).penalty, float)


def test_what_has_names_is_put_in_the_order_of_what_bound_its_size():
    frame = pd.DataFrame(X, ["r", "s", "t"], ["a", "b"])
    named = pd.Series([1, 2, 3], ["t", "s", "r"])
    model = Regression(frame, named, pd.Series([5.0, 7.0], ["b", "a"]))
    assert model.y.tolist() == [3, 2, 1]
    assert model.penalty.tolist() == [7, 5]
    raises("the index of y differs", Regression, frame, pd.Series([1, 2, 3]))


def test_help_shows_plain_types():
    shown = str(inspect.signature(level))
    assert shown == "(shares: numpy.ndarray, *, k: int = 1) -> int"
    assert inspect.signature(Regression).parameters["penalty"].annotation == float | np.ndarray
    assert Regression.__annotations__["step"] is float


def text(x: "Count") -> None: ...
def nothing(x: Annotated[int, "at least 1"]) -> None: ...
def twice(x: Annotated[int, Whole(1), Whole(2)]) -> None: ...
def either(x: Annotated[int, Whole(1)] | str) -> None: ...
def bare(x: Whole(1)) -> None: ...  # noqa: E301


@pytest.mark.parametrize("function", [text, nothing, twice, either, bare])
def test_annotations_that_say_nothing_are_errors_at_once(function):
    raises(f"{function.__name__}: x is annotated by", declared, function, error=TypeError)
