"""Weights of any kind in place of CV's zeros and ones: bootstrap.

Rows of `weights` (n_resamples, n_sites) are of any scheme, as rng.multinomial(n, [1 / n] * n, B).
A weight of 2 counts a site twice: a row of a GLM or a sequence of an HMM as if it were there twice,
an observation of a hidden chain or field by the square of its density, with one hidden state.

Source: Giordano et al. (2019), sections 2.1 and 3.
"""

from typing import Annotated, Any

import numpy as np

from .checks import warn
from .declared import NonNegative, Real, declared
from .derivatives import Derivatives
from .model import ModelDefaults
from .results import TOLERANCE, AFit
from .solvers.inverse import DenseFolds
from .solvers.newton import newton
from .trials import UnconvergedFit

Resamples = Annotated[np.ndarray, Real("n_resamples n_sites", least=0.0)]
VANISHED = 1e-8  # curvature, relative to the fit's, of an optimum at infinity


@declared
def jackknife_params(fit: AFit, weights: Resamples) -> np.ndarray:
    """theta_hat - H^-1 J (w - 1) for each row of weights, (n_resamples, D)."""
    cross = fit.derivatives.cross_matrix(fit.params, np.ones(fit.model.n_sites))
    products = cross @ (weights - 1.0).T
    return fit.params - fit.hessian.solve(products).T


@declared
def refits(fit: AFit, weights: Resamples, tolerance: NonNegative = TOLERANCE) -> np.ndarray:
    """argmin F(., w) for each row of weights, (n_resamples, D): Newton's method from the fit.

    Rows that do not reach `tolerance`, or reach it where the curvature has vanished and the optimum
    is at infinity, are nan, and warned of once.

    Raises
    ------
    ValueError: too many parameters for a Hessian of each resample in memory.
    """
    derivatives = fit.derivatives
    if derivatives.matrix_free:
        size = f"{len(fit.params)} parameters are too many for a Hessian of each resample"
        raise ValueError(f"{size}: raise the model's dense_limit, or use jackknife_params")
    resampled = _Resampled(derivatives, len(fit.params), weights)
    numbers: Any = np.arange(len(weights))
    optima = newton(resampled, fit.params, numbers, tolerance)
    root = np.linalg.inv(np.linalg.cholesky(np.asarray(fit.metric)))
    relative = np.linalg.eigvalsh(root @ resampled.hessians @ root.T)
    lost = ~(optima.converged & (relative[:, 0] > VANISHED))
    if lost.any():
        optima.params[lost] = np.nan
        message = f"{lost.sum()} of {len(lost)} resamples have no optimum, or did not reach it"
        warn(message, UnconvergedFit)
    return optima.params


class _Resampled(Derivatives):
    """Derivatives at rows of weights, whose numbers stand in for the folds of `newton`."""

    chord_rate = np.inf  # a gradient comes with its Hessian: every step takes
    fresh = 0.0  # the Hessian of where it starts

    def __init__(self, of_model, n_params, weights):
        super().__init__(of_model.model)
        self.defaults = ModelDefaults()  # convex or not, the same steps
        self._of_model = of_model
        self._weights = weights
        self._points = np.full((len(weights), n_params), np.nan)
        self.hessians = np.empty((len(weights), n_params, n_params))  # at the points

    def fold_gradients(
        self, params: np.ndarray, folds: Any, values: bool = True
    ) -> tuple[Any, np.ndarray]:
        self._points[folds] = params
        objectives = np.empty(len(folds))
        gradients = np.empty((len(folds), self._points.shape[1]))
        for place, row in enumerate(folds):
            pair = self._points[row], self._weights[row]
            objectives[place], gradients[place] = self._of_model.value_and_gradient(*pair)
            self.hessians[row] = np.asarray(self._of_model.hessian(*pair))
        return objectives, gradients

    def fold_hessians(
        self, params: np.ndarray, folds: Any, damping: float = 0.0, whole: Any = None
    ) -> DenseFolds:
        if (self._points[folds] != params).any():
            self.fold_gradients(params, folds)  # back from a step that did not descend
        return DenseFolds(self.hessians[folds])
