"""Exact cross-validation at hyperparameters alpha, and its gradient.

    dCV/dalpha_j = sum_o [ dl_o/dalpha_j - dl_o/dtheta' H(w_o)^-1 d2F/dtheta dalpha_j ],

l_o the held-out losses of fold o, everything at its refit theta_o. So theta_o moves by
-H(w_o)^-1 d2F/dtheta dalpha_j, and the losses are differenced along.

Differences by alpha are of second order, of models at alpha_j (1 +- `STEP`): those of F are exact
but for rounding where it is linear in alpha, as in a ridge or a concentration; others are within
about the square of `STEP` of their size.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..checks import NotFinite, one_line
from ..compare import data_difference
from ..declared import Is, NonNegative, Real, declared
from ..derivatives import Derivatives, derivatives_of
from ..fit import TOLERANCE
from ..fit import fit as fit_model
from ..folds import Folds
from ..methods.exact import finished, refit_folds
from ..model import check_is_model
from ..results import CVResult, Fit, Run

NARROW = 1.01  # bounds must leave room for differences
STEP = 2e-4  # of alpha

Alpha = Annotated[np.ndarray, Real("n_alpha", above=0.0)]
ModelOf = Callable[[np.ndarray], Any]  # a class of models is one


@dataclass(frozen=True, eq=False)
class CVGradient:
    """Exact cross-validation at alpha, and its gradient.

    alpha, gradient = dloss/dalpha: each (A,); model, fit, result: at alpha, as of `exact`.
    """

    __repr__ = one_line
    alpha: np.ndarray
    gradient: np.ndarray
    model: Any = field(repr=False)
    fit: Fit = field(repr=False)
    result: CVResult = field(repr=False)

    @property
    def loss(self) -> float:
        """The cross-validated loss, a mean over held-out sites."""
        return self.result.loss

    @property
    def unconverged(self) -> np.ndarray:
        """Numbers of the folds whose refit did not converge: their share in both is not known."""
        return np.flatnonzero(~self.result.diagnostics["converged"])


@declared
def cv_gradient(
    model_of: ModelOf,
    alpha: Alpha,
    folds: Folds,
    params: np.ndarray | None = None,
    bounds: Any = (0.0, np.inf),
    tolerance: NonNegative = TOLERANCE,
    near: Annotated[CVGradient, Is()] | None = None,
) -> CVGradient:
    """Cross-validate model_of(alpha) exactly, with the gradient of the loss by alpha.

    Warns as `fit` and `exact` do, of what did not converge.

    Parameters
    ----------
    model_of : a model from alpha (A,); the same sites, data and parameters for every alpha. It is
        called at alpha, and at two values near it for each alpha_j.
    alpha : (A,) positive hyperparameters
    params : (D,) from which the model is fitted, its own start if None
    bounds : (low, high) numbers or arrays (A,), beyond which model_of is not called
    tolerance : of fit and refits
    near : the same at another alpha: fit and refits go on from there

    Raises
    ------
    ValueError : alpha is not positive or beyond the bounds; model_of gives models of other sites,
        data or parameters, or another one each time; an alpha_j that changes nothing
    TypeError : model_of gives no model, or an `EstimatingEquation`
    NotFinite : the loss or its gradient
    """
    models = _NearAlpha(model_of, alpha, *checked_bounds(alpha, bounds))
    if near is not None:
        if near.alpha.shape != alpha.shape:
            raise ValueError(f"near has alpha {near.alpha}, not {alpha.shape}: it is another's")
        _check_alike(models.centre, near.model, alpha)
        params = near.fit.params
    fit = fit_model(models.centre, params, tolerance=tolerance)
    run = Run("exact", fit, folds)
    starts = None
    if near is not None and near.result.folds.same_as(run.folds):
        starts = fit.params + near.result.params - near.fit.params
    run.derivatives.defaults.check_folds(run.folds)
    refits = refit_folds(fit, run.folds, tolerance, starts)
    run.derivatives.defaults.check_refits(refits.params, run.folds)
    result = finished(run, refits)
    if near is None:
        models.check_same_each_time(fit.params)
    gradient = _gradient(models, result, near is None)
    if not np.isfinite([result.loss, *gradient]).all():
        raise NotFinite(f"at alpha {alpha} the loss is {result.loss}, its gradient {gradient}")
    return CVGradient(alpha, gradient, models.centre, fit, result)


def _gradient(models, result, is_first):
    """dCV/dalpha (A,), a portion of the folds at a time."""
    derivatives = result.fit.derivatives
    total = np.zeros(len(models.alpha))
    idle = np.ones(len(total), bool)
    every = [models.beside(j) for j in range(len(total))]
    for part in derivatives.portions(result.folds, result.params.shape[1]):
        params = result.params[part]
        folds = result.folds[part]
        hessians = derivatives.fold_hessians(params, folds)
        for j, beside in enumerate(every):
            mixed = beside.slope(
                lambda here, _, at=params, of=folds: here.fold_gradients(at, of, values=False)[1],
                derivatives,
            )
            moves = hessians.solve(mixed)
            slopes = beside.slope(
                lambda here, move, at=params, by=moves, of=folds: np.concatenate(
                    list(here.heldout(at - move * by, of)), axis=None
                ),
                derivatives,
            )
            total[j] += slopes.sum()
            idle[j] &= not (slopes.any() or mixed.any())
    if is_first and idle.any():
        j = np.argmax(idle)
        raise ValueError(f"alpha[{j}] = {models.alpha[j]:g} changes nothing: take it out")
    return total / sum(len(scored) for scored in result.folds.scored)


def checked_bounds(alpha: np.ndarray, bounds: Any) -> tuple[np.ndarray, np.ndarray]:
    """Copies of (low, high), each (A,), between which alpha (A,) is."""
    try:
        low, high = (np.broadcast_to(np.asarray(end, float), alpha.shape) for end in bounds)
    except (TypeError, ValueError):
        expected = f"(low, high), numbers or arrays {alpha.shape}"
        raise ValueError(f"bounds {bounds!r:.80} must be {expected}") from None
    wrong = ~((low >= 0.0) & (NARROW * low < high) & (low <= alpha) & (alpha <= high))
    if wrong.any():
        j = np.argmax(wrong)
        stated = f"alpha[{j}] = {alpha[j]:g} with bounds {low[j]:g} and {high[j]:g}"
        raise ValueError(f"{stated}: must be 0 <= low <= alpha <= high, {NARROW} low < high")
    return low.copy(), high.copy()


class _Beside(NamedTuple):
    """f'(0) = weights @ [f(0), f(moves[0]), f(moves[1])], and the derivatives of models there."""

    moves: np.ndarray
    weights: np.ndarray
    derivatives: list

    def slope(self, function: Callable, centre: Derivatives) -> np.ndarray:
        """That of function(derivatives, move), of arrays."""
        first, second = map(function, self.derivatives, self.moves)
        total = self.weights[1] * first + self.weights[2] * second
        return total + self.weights[0] * function(centre, 0.0) if self.weights[0] else total


class _NearAlpha:
    """model_of at alpha and near it, within the bounds."""

    def __init__(self, model_of, alpha, low, high):
        if not callable(model_of):
            raise TypeError(f"model_of = {model_of!r:.80}: must be a function of alpha")
        self.model_of = model_of
        self.alpha = alpha
        self.low = low
        self.high = high
        self.centre = self._at(alpha)
        if derivatives_of(self.centre).is_equation:
            raise TypeError("an EstimatingEquation has no objective: model_of must give a Model")

    def _at(self, alpha):
        model = self.model_of(alpha.copy())
        check_is_model(model)
        return model

    def _moved(self, j, move):
        alpha = self.alpha.copy()
        alpha[j] += move
        model = self._at(alpha)
        _check_alike(model, self.centre, alpha)
        return derivatives_of(model)

    def beside(self, j: int):
        """Differences by alpha_j: central, or to one side at a bound."""
        step = STEP * self.alpha[j]
        moves = step * np.array([-1.0, 1.0])
        if self.alpha[j] - step < self.low[j]:
            moves = step * np.array([1.0, 2.0])
        elif self.alpha[j] + step > self.high[j]:
            moves = step * np.array([-1.0, -2.0])
        a, b = moves
        weights = np.array([-(a + b) / (a * b), b / (a * (b - a)), a / (b * (a - b))])
        return _Beside(moves, weights, [self._moved(j, move) for move in moves])

    def check_same_each_time(self, params: np.ndarray):
        """Raise ValueError where model_of gives another model when it is called again."""
        ones = np.ones(self.centre.n_sites)
        value, gradient = derivatives_of(self.centre).value_and_gradient(params, ones)
        other, again = derivatives_of(self._at(self.alpha)).value_and_gradient(params, ones)
        if other != value or not np.array_equal(again, gradient):
            raise ValueError(
                f"model_of({self.alpha}) gives another model each time: F is {value!r}, then "
                f"{other!r}. Draw what is random before, once"
            )


def _check_alike(model, centre, alpha):
    """Raise ValueError where a model has other sites, data or parameters than the one at alpha."""
    reason = data_difference(centre, model)
    sizes = [getattr(each, "n_params", None) for each in (centre, model)]
    if sizes[0] != sizes[1]:
        reason = f"{sizes[0]} and {sizes[1]} parameters"
    if reason:
        raise ValueError(f"model_of({alpha}) gives a model of other data or size: {reason}")
