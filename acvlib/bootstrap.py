"""Weights of any kind in place of CV's zeros and ones: bootstrap.

Rows of `weights` (n_resamples, n_sites) are of any scheme, as rng.multinomial(n, [1 / n] * n, B).
A weight of 2 counts a site twice: a row of a GLM or a sequence of an HMM as if it were there twice,
an observation of a hidden chain or field by the square of its density, with one hidden state.

Source: Giordano et al. (2019), sections 2.1 and 3.
"""

from typing import Annotated, Any

import numpy as np

from .checks import in_columns_of, index_of, warn
from .declared import NonNegative, Real, Sizes, declared
from .derivatives import Derivatives
from .folds import Folds
from .model import ModelDefaults
from .results import TOLERANCE, AFit
from .solvers.newton import newton
from .trials import UnconvergedFit
from .weighting import unit_of

VANISHED = 1e-8  # curvature, relative to the fit's, of an optimum at infinity


class OfResamples(Real):
    """Rows of weights, whose columns have the names of a model's sites where both have some."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Any:
        index = index_of(sizes.owner)
        value = in_columns_of(None if index is None else list(index), name, value)
        return super().__call__(name, value, sizes)


Resamples = Annotated[np.ndarray, OfResamples("n_resamples n_sites", least=0.0)]


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

    Raises ValueError: too many parameters for a Hessian of each resample in memory.
    """
    derivatives = fit.derivatives
    if derivatives.matrix_free:
        size = f"{len(fit.params)} parameters are too many for a Hessian of each resample"
        raise ValueError(f"{size}: use jackknife_params, or raise the dense_limit of an HMM")
    resampled = _Resampled(derivatives, weights)
    rows = Folds(np.arange(len(weights))[:, None])
    optima = newton(resampled, fit.params, rows, tolerance * unit_of(fit.model))
    hessians: Any = resampled.fold_hessians(optima.params, rows)
    relative = np.linalg.eigvals([fit.hessian.solve(each) for each in hessians.matrices]).real
    lost = ~(optima.converged & (relative.min(axis=1) > VANISHED))
    if lost.any():
        optima.params[lost] = np.nan
        message = f"{lost.sum()} of {len(lost)} resamples have no optimum, or did not reach it"
        warn(message, UnconvergedFit)
    return optima.params


class _Resampled(Derivatives):
    """Derivatives of a model at rows of weights: fold i, [i], stands for the weights of row i."""

    def __init__(self, derivatives, weights):
        super().__init__(derivatives.model)
        self.defaults = ModelDefaults()  # convex or not, the same steps
        self.value_and_gradient = derivatives.value_and_gradient
        self.hessian = derivatives.hessian
        self._weights = weights

    def _without(self, fold):
        return self._weights[fold[0]]
