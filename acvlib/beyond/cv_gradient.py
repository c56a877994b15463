"""Exact cross-validation at hyperparameters alpha, and its gradient.

    dCV/dalpha = sum_o [ dl_o/dalpha - dl_o/dtheta' H(w_o)^-1 d2F/dtheta dalpha ],

l_o the held-out losses of fold o, everything at its refit theta_o. What alpha does to the prior
alone costs one adjoint solve a fold for all of alpha. Other alpha_j move the data's part of F, or
the losses: theta_o moves by -H(w_o)^-1 d2F/dtheta dalpha_j, and the losses are differenced along.

Derivatives by alpha are the differences of `near_alpha`: exact but for rounding where F is linear
in alpha, as it is in a ridge or a concentration.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from ..checks import NotFinite, one_line
from ..declared import Is, NonNegative, declared
from ..fit import TOLERANCE
from ..fit import fit as fit_model
from ..folds import Folds
from ..methods.exact import finished, refit_folds
from ..methods.run import Run
from ..results import CVResult, Fit
from .near_alpha import NearAlpha, check_alike, checked_alpha


@dataclass(frozen=True)
class CVGradient:
    """Exact cross-validation at alpha, and its gradient.

    alpha, gradient = dloss/dalpha, in_prior: each (A,); in_prior: whether alpha_j is in the prior
    alone; model, fit, result: at alpha, the result as of `exact`.
    """

    __repr__ = one_line
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


@declared
def cv_gradient(
    model_of: Callable[[np.ndarray], Any],
    alpha: np.ndarray,
    folds: Folds,
    params: np.ndarray | None = None,
    bounds: Any = (0.0, np.inf),
    tolerance: NonNegative = TOLERANCE,
    near: Annotated[CVGradient, Is()] | None = None,
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
    NotFinite : the loss or its gradient
    """
    alpha, low, high = checked_alpha(alpha, bounds)
    models = NearAlpha(model_of, alpha, low, high)
    model = models.centre
    if near is not None:
        if near.alpha.shape != alpha.shape:
            raise ValueError(f"near has alpha {near.alpha}, not {alpha.shape}: it is another's")
        check_alike(model, near.model, alpha)
        params = near.fit.params
    found = fit_model(model, params, tolerance=tolerance)
    run = Run("exact", found, folds)
    starts = None
    if near is not None and near.result.folds.same_as(run.folds):
        starts = found.params + near.result.params - near.fit.params
    run.derivatives.defaults.check_folds(run.folds)
    refits = refit_folds(found, run.folds, tolerance, starts)
    run.derivatives.defaults.check_refits(refits.params, run.folds)
    result = finished(run, refits)
    if near is None:
        models.check_same_each_time(found.params)
        in_prior = models.in_prior(run.derivatives, found.params)
    else:
        in_prior = near.in_prior
    gradient = _gradient(models, result, in_prior, near is None)
    if not np.isfinite([result.loss, *gradient]).all():
        raise NotFinite(f"at alpha {alpha} the loss is {result.loss}, its gradient {gradient}")
    return CVGradient(alpha, gradient, in_prior, model, found, result)


def _gradient(models, result, in_prior, is_first):
    """dCV/dalpha (A,), a portion of the folds at a time."""
    derivatives = result.fit.derivatives
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
