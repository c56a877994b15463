"""Weights of any kind in place of CV's zeros and ones: bootstrap, and jackknife after bootstrap.

Rows of `weights` (n_resamples, n_sites) come of `folds.bootstrap_weights` or of any other scheme.
A hidden-state model whose weights only omit observations refuses weights above 1.

Source: Giordano et al. (2019), sections 2.1 and 3.
"""

import warnings
from typing import Any

import numpy as np

from .derivatives import derivatives_of
from .fit import TOLERANCE, UnconvergedFit
from .protocol import Fit

MAX_STEPS = 50
SLACK = 1e-10  # relative rounding error of an objective
VANISHED = 1e-8  # curvature, relative to the fit's, of an optimum at infinity


def jackknife_params(model: Any, fit: Fit, weights: np.ndarray) -> np.ndarray:
    """theta_hat - H^-1 J (w - 1) for each row of weights, (n_resamples, D)."""
    cross = derivatives_of(model).cross_matrix(fit.params, np.ones(model.n_sites))
    products = cross @ (weights - 1.0).T
    return fit.params - fit.hessian.solve(products).T


def refits(model: Any, fit: Fit, weights: np.ndarray, tolerance: float = TOLERANCE) -> np.ndarray:
    """argmin F(., w) for each row of weights, (n_resamples, D): Newton's method from the fit.

    A step that does not descend is halved. Rows that do not reach `tolerance`, or reach it where
    the curvature has vanished and the optimum is at infinity, are nan, and warned of once.
    """
    derivatives = derivatives_of(model)
    params = np.tile(fit.params, (len(weights), 1))
    values, gradients, hessians = derivatives.weighted(params, weights)
    state = (params, values, gradients, hessians)
    scale = np.ones(len(weights))
    for _ in range(MAX_STEPS):
        moves, decrements = _newton_moves(gradients, hessians)
        rows = np.flatnonzero(decrements > tolerance)
        if not rows.size:
            break
        trial = params[rows] + scale[rows, None] * moves[rows]
        found = (trial, *derivatives.weighted(trial, weights[rows]))
        rounding = SLACK * (1.0 + abs(values[rows]))
        good = found[1] <= values[rows] + rounding
        scale[rows] = np.where(good, 1.0, 0.5 * scale[rows])
        for kept, new in zip(state, found, strict=True):
            kept[rows[good]] = new[good]
    lost = (decrements > tolerance) | ~_is_curved(hessians, fit)
    if lost.any():
        params[lost] = np.nan
        message = f"{lost.sum()} of {len(lost)} resamples have no optimum, or did not reach it"
        warnings.warn(message, UnconvergedFit, stacklevel=2)
    return params


def _newton_moves(gradients, hessians):
    """(moves (n, D), decrements (n,))."""
    columns = np.linalg.solve(hessians, gradients[..., None])
    steps = columns[..., 0]
    squared = np.sum(steps * gradients, axis=1)
    return -steps, np.sqrt(np.maximum(squared, 0.0))


def _is_curved(hessians, fit):
    """Whether the curvature is at least VANISHED times the fit's in every direction."""
    root = np.linalg.inv(np.linalg.cholesky(np.asarray(fit.metric)))
    relative = np.linalg.eigvalsh(root @ hessians @ root.T)
    return relative[:, 0] > VANISHED


def interval(params: np.ndarray, level: float = 0.9) -> np.ndarray:
    """Percentile interval of each parameter, (2, D), from params (n_resamples, D)."""
    tail = 0.5 * (1.0 - level)
    return np.quantile(params, [tail, 1.0 - tail], axis=0)


def jackknife_after_bootstrap(
    params: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(standard errors (D,), their own standard errors (D,)) from one set of resamples.

    The resamples that happen to leave out a site are a bootstrap of the others: no further fit is
    needed. Monte Carlo noise adds about se sqrt(e n / (2 n_resamples)), in quadrature.

    Raises
    ------
    ValueError: fewer than two resamples leave out some site.

    Source: Efron (1992).
    """
    left_out = (weights == 0.0).T
    counts = left_out.sum(axis=1)
    if counts.min() < 2:
        site = np.argmin(counts)
        raise ValueError(f"site {site} is in all but {counts[site]} resamples: draw more")
    deviations = np.array([params[rows].std(axis=0) for rows in left_out])
    spread = (len(deviations) - 1) * deviations.var(axis=0)
    return params.std(axis=0, ddof=1), np.sqrt(spread)
