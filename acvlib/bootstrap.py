"""Weights of any kind in place of CV's zeros and ones: bootstrap, and jackknife after bootstrap.

Rows of `weights` (n_resamples, n_sites) come of `folds.bootstrap_weights` or of any other scheme. Giordano et
al. (2019), section 2.1 and 3.
"""

import warnings

import numpy as np

from . import curvature
from .fit import TOLERANCE, UnconvergedFit

MAX_STEPS = 50


def jackknife_params(model, fit, weights):
    """theta_hat - H^-1 J (w - 1) for each row of weights, (n_resamples, D)."""
    hessian, cross = curvature.hessian_and_cross(model, fit.params, np.ones(model.n_sites))
    return fit.params - curvature.solver(model, hessian)(cross @ (weights - 1.0).T).T


def refits(model, fit, weights, tolerance=TOLERANCE):
    """argmin F(., w) for each row of weights, (n_resamples, D): Newton's method from the fit, in lockstep.

    A step that does not descend is halved. Rows that do not reach `tolerance` are nan, and warned of once.
    """
    params, scale = np.tile(fit.params, (len(weights), 1)), np.ones(len(weights))
    rows = np.arange(len(weights))
    values, gradients, hessians = curvature.weighted_derivatives(model, params, weights)
    for _ in range(MAX_STEPS):
        move = -np.linalg.solve(hessians, gradients[..., None])[..., 0]
        far = np.sqrt(np.maximum(-np.einsum("ni,ni->n", move, gradients), 0.0)) > tolerance
        rows, move, values, gradients, hessians = (each[far] for each in (rows, move, values, gradients, hessians))
        if not rows.size:
            return params
        trial = params[rows] + scale[rows, None] * move
        new = curvature.weighted_derivatives(model, trial, weights[rows])
        good = new[0] <= values + 1e-10 * (1.0 + abs(values))
        params[rows[good]] = trial[good]
        scale[rows] = np.where(good, 1.0, 0.5 * scale[rows])
        old = values, gradients, hessians
        values, gradients, hessians = (_where(good, a, b) for a, b in zip(new, old, strict=True))
    params[rows] = np.nan
    warnings.warn(f"{len(rows)} of {len(weights)} resamples did not converge", UnconvergedFit, stacklevel=2)
    return params


def _where(good, new, old):
    return np.where(good.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def interval(params, level=0.9):
    """Percentile interval of each parameter, (2, D), from params (n_resamples, D)."""
    tail = 0.5 * (1.0 - level)
    return np.quantile(params, [tail, 1.0 - tail], axis=0)


def jackknife_after_bootstrap(params, weights):
    """(standard errors (D,), their own standard errors (D,)) from one set of resamples (Efron 1992).

    The resamples that happen to leave out a site are a bootstrap of the other sites: no further fit is needed.
    Its Monte Carlo noise adds about se sqrt(e n / (2 n_resamples)), in quadrature. ValueError where some site is
    in all of them.
    """
    without = (weights == 0.0).T.astype(float)
    counts = without.sum(axis=1, keepdims=True)
    if counts.min() < 2:
        raise ValueError(f"site {np.argmin(counts)} is in all but {counts.min():.0f} resamples: draw more of them")
    centred = params - params.mean(axis=0)
    variances = without @ centred**2 / counts - (without @ centred / counts) ** 2
    deviations = np.sqrt(variances)
    spread = (len(deviations) - 1) * deviations.var(axis=0)
    return params.std(axis=0, ddof=1), np.sqrt(spread)
