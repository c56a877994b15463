"""Models of hyperparameters alpha: at alpha, beside it for differences, and whether they are alike.

Differences are of second order, of models at alpha_j (1 +- `STEP`): exact but for rounding where a
function is linear in alpha, and within about `STEP`^2 of its size elsewhere.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..checks import real_array
from ..compare import data_difference
from ..derivatives import Derivatives, derivatives_of
from ..folds import Folds
from ..folds.checks import observed_mask
from ..model import check_is_model

NARROW = 1.01  # bounds must leave room for differences
STEP = 2e-4  # of alpha
FAR = 0.1  # of alpha: where to look for what it does to the data's part
ROUNDING = 1e-7  # of what alpha does to the prior: less than that is nothing


def checked_alpha(alpha: Any, bounds: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Copies of (alpha, low, high), each (A,)."""
    alpha = real_array("alpha", alpha, 1)
    if not (alpha.size and alpha.min() > 0.0):
        raise ValueError(f"alpha {alpha} must be one or more positive numbers")
    try:
        low, high = (np.broadcast_to(np.asarray(end, float), alpha.shape) for end in bounds)
    except (TypeError, ValueError):
        expected = f"(low, high), numbers or arrays {alpha.shape}"
        raise ValueError(f"bounds {bounds!r:.80} must be {expected}") from None
    wrong = ~((low >= 0.0) & (NARROW * low < high) & (low <= alpha) & (alpha <= high))
    if wrong.any():
        j = np.argmax(wrong)
        found = f"alpha[{j}] = {alpha[j]:g} with bounds {low[j]:g} and {high[j]:g}"
        raise ValueError(f"{found}: must be 0 <= low <= alpha <= high, {NARROW} low < high")
    return alpha, low.copy(), high.copy()


class Beside(NamedTuple):
    """f'(0) = weights @ [f(0), f(moves[0]), f(moves[1])], and the derivatives of models there."""

    moves: np.ndarray
    weights: np.ndarray
    derivatives: list

    def slope(self, function: Callable, centre: Derivatives) -> np.ndarray:
        """That of function(derivatives, move), of arrays."""
        first, second = map(function, self.derivatives, self.moves)
        total = self.weights[1] * first + self.weights[2] * second
        return total + self.weights[0] * function(centre, 0.0) if self.weights[0] else total


class NearAlpha:
    """model_of at alpha and near it, within the bounds."""

    def __init__(self, model_of, alpha, low, high):
        if not callable(model_of):
            raise TypeError(f"model_of = {model_of!r:.60}: must be a function of alpha")
        self.model_of = model_of
        self.alpha = alpha
        self.low = low
        self.high = high
        self.centre = self._at(alpha)
        if hasattr(self.centre, "residual"):
            raise TypeError("an EstimatingEquation has no objective: model_of must give a Model")

    def _at(self, alpha):
        model = self.model_of(alpha.copy())
        check_is_model(model)
        return model

    def _moved(self, j, move):
        alpha = self.alpha.copy()
        alpha[j] += move
        model = self._at(alpha)
        check_alike(model, self.centre, alpha)
        return derivatives_of(model)

    def beside(self, j):
        """Differences by alpha_j: central, or to one side at a bound."""
        step = STEP * self.alpha[j]
        moves = step * np.array([-1.0, 1.0])
        if self.alpha[j] - step < self.low[j]:
            moves = step * np.array([1.0, 2.0])
        elif self.alpha[j] + step > self.high[j]:
            moves = step * np.array([-1.0, -2.0])
        a, b = moves
        weights = np.array([-(a + b) / (a * b), b / (a * (b - a)), a / (b * (a - b))])
        return Beside(moves, weights, [self._moved(j, move) for move in moves])

    def check_same_each_time(self, params):
        """Raise ValueError where model_of gives another model when it is called again."""
        again = derivatives_of(self._at(self.alpha))
        ones = np.ones(self.centre.n_sites)
        value, gradient = derivatives_of(self.centre).value_and_gradient(params, ones)
        other, other_gradient = again.value_and_gradient(params, ones)
        if other != value or not np.array_equal(other_gradient, gradient):
            raise ValueError(
                f"model_of({self.alpha}) gives another model each time: F is {value!r}, then "
                f"{other!r}. Draw what is random before, once"
            )

    def in_prior(self, centre, params):
        """Whether alpha_j changes neither the data's part of dF/dparams nor held-out losses."""
        found = np.zeros(len(self.alpha), bool)
        if centre.prior_gradients(params[None]) is None:
            return found
        before = self._parts(centre, params)
        for j in range(len(found)):
            move = min(FAR * self.alpha[j], self.high[j] - self.alpha[j])
            if move <= 0.0:
                move = -min(FAR * self.alpha[j], self.alpha[j] - self.low[j])
            after = self._parts(self._moved(j, move), params)
            prior, data = (abs(after[i] - before[i]).max() for i in range(2))
            same = np.array_equal(after[2], before[2])
            found[j] = same and data <= ROUNDING * prior and prior > 0.0
        return found

    def _parts(self, derivatives, params):
        """dF/dparams of the prior and of the data, and all sites' losses, none of them fitted."""
        model = derivatives.model
        _, gradient = derivatives.value_and_gradient(params, np.ones(model.n_sites))
        prior = derivatives.prior_gradients(params[None])[0]
        every = np.flatnonzero(observed_mask(model.n_sites, derivatives.defaults.observed))
        return prior, gradient - prior, derivatives.heldout(params, Folds([every]))[0]


def check_alike(model: Any, centre: Any, alpha: np.ndarray) -> None:
    """Raise ValueError where a model has other sites, data or parameters than the one at alpha."""
    reason = data_difference(centre, model)
    sizes = [getattr(each, "n_params", None) for each in (centre, model)]
    if sizes[0] != sizes[1]:
        reason = f"{sizes[0]} and {sizes[1]} parameters"
    if reason:
        raise ValueError(f"model_of({alpha}) gives a model of other data or size: {reason}")
