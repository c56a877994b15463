"""A model that a reader writes: how long it is, and what the rungs are worth on it."""

import inspect
import time
from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
import pandas as pd

import acvlib as acv

from .ladders import seconds, theta_table


def source_lines(written: Any) -> int:
    """Lines with code in them: of a function, or of a class, its first line and its functions'.

    Taken from the source of each function, as Python keeps none of a class typed into a notebook.
    """
    is_class = inspect.isclass(written)
    members = vars(written).values() if is_class else [written]
    functions = [member for member in members if inspect.isfunction(member)]
    lines = [line for function in functions for line in inspect.getsourcelines(function)[0]]
    return is_class + sum(bool(line.strip()) for line in lines)


def theta_errors(
    draw: Callable[[np.random.Generator], Any], n_draws: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Median parameter error of each rung; one row a draw of data and of 20 blocks of 2.5 %."""
    rows = []
    for _ in range(n_draws):
        model = draw(rng)
        folds = acv.folds.contiguous(model.n_sites, percent=2.5, n_folds=20, rng=rng)
        rows.append(theta_table(acv.ladder(acv.fit(model), folds)).median())
    return pd.DataFrame(rows).rename_axis("draw")


class KalmanLoop:
    """The filter of the chapter by autograd, with a loop over time."""

    def __init__(self, values: np.ndarray):
        self.values = values
        self.n_sites = len(values)

    def losses(self, params: np.ndarray, weights: np.ndarray) -> list:
        """-log p(value | kept values before it), one a value."""
        drift = anp.exp(params[0])
        noise = anp.exp(params[1])
        mean = params[2]
        variance = 10.0
        found = []
        for value, weight in zip(self.values, weights, strict=True):
            total = variance + noise
            error = value - mean
            found.append((anp.log(2 * np.pi * total) + error**2 / total) / 2)
            gain = weight * variance / total
            mean = mean + gain * error
            variance = variance * (1 - gain) + drift
        return found

    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F."""
        losses = self.losses(params, weights)
        return sum(weight * loss for weight, loss in zip(weights, losses, strict=True))

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """The losses of the left-out values."""
        losses = self.losses(params, acv.folds.weights(self.n_sites, fold))
        return np.array([losses[site] for site in fold])

    def initial_params(self, rng: Any) -> np.ndarray:
        """Variances of 1, and level 0."""
        return np.zeros(3)


def made(make: Callable[[], Any]) -> tuple[Any, float]:
    """(the model, seconds to make it and to take its first gradient and Hessian)."""
    tick = time.perf_counter()
    model = make()
    _first_and_second(model, model.initial_params(None))
    return model, time.perf_counter() - tick


def beside(model: Any, by_autograd: Any, params: np.ndarray, repeats: int = 20) -> pd.DataFrame:
    """Seconds of one gradient and one Hessian of the same F, and by how much of their size ours
    differ; rows `ours` and `autograd`.
    """
    ours, theirs = (_first_and_second(one, params) for one in (model, by_autograd))
    difference = max(abs(a - b).max() / abs(b).max() for a, b in zip(ours, theirs, strict=True))
    table = {
        "seconds": [
            np.median(seconds(lambda: _first_and_second(model, params), repeats)),
            *seconds(lambda: _first_and_second(by_autograd, params)),
        ],
        "difference": [difference, 0.0],
    }
    return pd.DataFrame(table, ["ours", "autograd"])


def _first_and_second(model, params):
    derivatives = acv.derivatives_of(model)
    weights = np.ones(model.n_sites)
    _, gradient = derivatives.value_and_gradient(params, weights)
    return gradient, np.asarray(derivatives.hessian(params, weights))
