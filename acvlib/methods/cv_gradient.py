"""Exact cross-validation at hyperparameters alpha, and its gradient.

    dCV/dalpha = sum_o [ dl_o/dalpha - dl_o/dtheta' H(w_o)^-1 d2F/dtheta dalpha ],

l_o the held-out losses of fold o, everything at its refit theta_o. What alpha does to the prior
alone costs one adjoint solve a fold for all of alpha. Other alpha_j move the data's part of F, or
the losses: theta_o moves by -H(w_o)^-1 d2F/dtheta dalpha_j, and the losses are differenced along.

Derivatives by alpha are differences of second order, of models at alpha_j (1 +- `STEP`): exact but
for rounding where F is linear in alpha, as it is in a ridge or a concentration, and within about
`STEP`^2 of their size elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_kind, real_array
from ..derivatives import Derivatives, derivatives_of, is_equation
from ..fit import TOLERANCE
from ..fit import fit as fit_model
from ..folds import Folds
from ..folds.checks import observed_mask
from ..protocol import CVResult, Fit, Refits, check_is_model, with_defaults
from .exact import finished, refit_folds
from .run import Run

STEP = 2e-4  # of alpha
FAR = 0.1  # of alpha: where to look for what it does to the data's part
ROUNDING = 1e-7  # of what alpha does to the prior: less than that is nothing
NARROW = 1.01  # bounds must leave room for differences
DATA = ("counts", "labels", "sequences", "y")  # what models call the data that they predict


@dataclass(frozen=True)
class CVGradient:
    """Exact cross-validation at alpha, and its gradient.

    alpha, gradient = dloss/dalpha, in_prior: each (A,); in_prior: whether alpha_j is in the prior
    alone; model, fit, result: at alpha, the result as of `exact`.
    """

    alpha: np.ndarray
    gradient: np.ndarray
    in_prior: np.ndarray = field(repr=False)
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


def cv_gradient(
    model_of: Callable[[np.ndarray], Any],
    alpha: np.ndarray,
    folds: Folds,
    params: np.ndarray | None = None,
    bounds: Any = (0.0, np.inf),
    tolerance: float = TOLERANCE,
    near: CVGradient | None = None,
) -> CVGradient:
    """Cross-validate model_of(alpha) exactly, with the gradient of the loss by alpha.

    Parameters
    ----------
    model_of : a model from alpha (A,); the same sites, data and parameters for every alpha. It is
        called at alpha, and at two values near it for each alpha_j.
    alpha : (A,) positive hyperparameters
    params : (D,) from which the model is fitted, its own start if None
    bounds : (low, high) numbers or arrays (A,), beyond which model_of is not called
    tolerance : of fit and refits, as of `exact`
    near : the same at another alpha: fit and refits go on from there, and in_prior is known

    Warns as `fit` and `exact` do, of what did not converge.

    Raises
    ------
    ValueError : alpha is not positive or beyond the bounds; model_of gives models of other sites,
        data or parameters, or another one each time; an alpha_j that changes nothing
    TypeError : model_of gives no model, or an `EstimatingEquation`
    """
    alpha, low, high = checked_alpha(alpha, bounds)
    models = _Models(model_of, alpha, low, high)
    model = models.centre
    if near is not None:
        check_kind("near", near, CVGradient)
        _check_alike(model, near.model, alpha)
        params = near.fit.params
    found = fit_model(model, params, tolerance=tolerance)
    run = Run("exact", model, found, folds, tolerance=tolerance)
    starts = None
    if near is not None and near.result.folds.same_as(run.folds):
        starts = found.params + near.result.params - near.fit.params
    refits = Refits.unfinished(len(run.folds), len(found.params))
    result = finished(
        run, refit_folds(run.derivatives, found, run.folds, tolerance, refits, starts)
    )
    if near is None:
        models.check_same_each_time(found.params)
        in_prior = models.in_prior(run.derivatives, found.params)
    else:
        in_prior = near.in_prior
    gradient = _gradient(models, result, in_prior, near is None)
    if not np.isfinite([result.loss, *gradient]).all():
        raise ValueError(f"at alpha {alpha} the loss is {result.loss}, its gradient {gradient}")
    return CVGradient(alpha, gradient, in_prior, model, found, result)


def _gradient(models, result, in_prior, is_first):
    """dCV/dalpha (A,), a portion of the folds at a time."""
    derivatives = result.derivatives
    total = np.zeros(len(in_prior))
    idle = np.ones(len(in_prior), bool)
    beside = [models.beside(j) for j in range(len(in_prior))]
    for part in derivatives.portions(result.folds, result.params.shape[1]):
        own = _OfFolds(derivatives, result.params[part], result.folds[part])
        for j, around in enumerate(beside):
            slopes, mixed = own.of_prior(around) if in_prior[j] else own.of_data(around)
            total[j] += slopes.sum()
            idle[j] &= not (slopes.any() or mixed.any())
    if is_first and idle.any():
        j = np.argmax(idle)
        raise ValueError(f"alpha[{j}] = {models.alpha[j]:g} changes nothing: take it out")
    return total / sum(len(scored) for scored in result.folds.scored)


class _OfFolds:
    """dl_o/dalpha_j of some folds at their refits, and d2F/dtheta dalpha_j (n_folds, D)."""

    def __init__(self, derivatives, params, folds):
        self.derivatives = derivatives
        self.params = params
        self.folds = folds
        self.hessians = derivatives.fold_hessians(params, folds)

    @cached_property
    def _adjoint(self):
        """H(w_o)^-1 dl_o/dtheta (n_folds, D), None where the model has no such gradient."""
        slopes = self.derivatives.heldout_gradients(self.params, self.folds)
        return None if slopes is None else self.hessians.solve(slopes)

    def of_prior(self, around):
        mixed = around.slope(lambda own, _: own.prior_gradients(self.params), self.derivatives)
        if self._adjoint is None:
            here = around._replace(derivatives=[self.derivatives] * 2)  # the losses do not change
            return self._along(here, mixed), mixed
        return -np.einsum("ni,ni->n", self._adjoint, mixed), mixed

    def of_data(self, around):
        def gradients(own, _):
            return own.fold_gradients(self.params, self.folds, values=False)[1]

        mixed = around.slope(gradients, self.derivatives)
        return self._along(around, mixed), mixed

    def _along(self, around, mixed):
        """The losses' own slopes, all sites end to end, as params move with alpha_j."""
        moving = self.hessians.solve(mixed)

        def losses(own, move):
            found = own.heldout(self.params - move * moving, self.folds)
            return np.concatenate([np.ravel(each) for each in found])

        return around.slope(losses, self.derivatives)


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


class _Models:
    """model_of at alpha and near it, within the bounds."""

    def __init__(self, model_of, alpha, low, high):
        self.model_of = model_of
        self.alpha = alpha
        self.low = low
        self.high = high
        self.centre = self._at(alpha)
        if is_equation(self.centre):
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
        return _Beside(moves, weights, [self._moved(j, move) for move in moves])

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


def _check_alike(model, centre, alpha):
    """Raise ValueError where a model has other sites, parameters or data than the one at alpha."""
    for name in ("n_sites", "n_params", *DATA):
        mine, other = (getattr(each, name, None) for each in (model, centre))
        if not _same(mine, other):
            what = f"{name} {other!r:.40}, then {mine!r:.40}"
            raise ValueError(f"model_of({alpha}) gives a model of other data or size: {what}")
    masks = [observed_mask(each.n_sites, with_defaults(each).observed) for each in (model, centre)]
    if not np.array_equal(*masks):
        raise ValueError(f"model_of({alpha}) gives a model whose observed sites are others")


def _same(a, b):
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a is b or np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return a is b or type(a) is not type(b) or not isinstance(a, int | str) or a == b
