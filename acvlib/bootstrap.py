"""Weights of any kind in place of CV's zeros and ones: bootstrap, and jackknife after bootstrap.

Rows of `weights` (n_resamples, n_sites) come of `folds.bootstrap_weights` or of any other scheme.
Giordano et al. (2019), section 2.1 and 3.
"""

import warnings

import numpy as np

from . import derivatives as curvature
from .fit import TOLERANCE, UnconvergedFit

MAX_STEPS = 50
VANISHED = 1e-8  # curvature, relative to the fit's, of an optimum at infinity


def jackknife_params(model, fit, weights):
    """theta_hat - H^-1 J (w - 1) for each row of weights, (n_resamples, D)."""
    hessian, cross = curvature.hessian_and_cross(model, fit.params, np.ones(model.n_sites))
    return fit.params - curvature.solver(model, hessian)(cross @ (weights - 1.0).T).T


def refits(model, fit, weights, tolerance=TOLERANCE):
    """argmin F(., w) for each row of weights, (n_resamples, D): Newton's method from the fit, in lockstep.

    A step that does not descend is halved. Rows that do not reach `tolerance`, or reach it where
    the curvature has vanished and the optimum is at infinity, are nan, and warned of once.
    """
    params, scale = np.tile(fit.params, (len(weights), 1)), np.ones(len(weights))
    rows, found = np.arange(len(weights)), np.zeros(len(weights), bool)
    state = curvature.weighted_derivatives(model, params, weights)
    for _ in range(MAX_STEPS):
        move, far = _moves(*state[1:], tolerance)
        found[rows[~far]] = _curved(state[2][~far], fit)
        rows, move, state = rows[far], move[far], [part[far] for part in state]
        if not rows.size:
            break
        trial = params[rows] + scale[rows, None] * move
        new = curvature.weighted_derivatives(model, trial, weights[rows])
        good = new[0] <= state[0] + 1e-10 * (1.0 + abs(state[0]))
        params[rows[good]] = trial[good]
        scale[rows] = np.where(good, 1.0, 0.5 * scale[rows])
        state = [_where(good, a, b) for a, b in zip(new, state, strict=True)]
    return _without(params, ~found)


def _moves(gradients, hessians, tolerance):
    """Newton moves, and which rows are further than `tolerance` from their optimum, by the decrement."""
    move = -np.linalg.solve(hessians, gradients[..., None])[..., 0]
    return move, np.sqrt(np.maximum(-np.einsum("ni,ni->n", move, gradients), 0.0)) > tolerance


def _curved(hessians, fit):
    """Whether the curvature is at least VANISHED times the fit's in every direction."""
    root = np.linalg.inv(np.linalg.cholesky(fit.metric))
    return np.linalg.eigvalsh(root @ hessians @ root.T)[..., 0] > VANISHED


def _where(good, new, old):
    return np.where(good.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _without(params, lost):
    if lost.any():
        params[lost] = np.nan
        message = f"{lost.sum()} of {len(lost)} resamples have no optimum, or did not reach it"
        warnings.warn(message, UnconvergedFit, stacklevel=3)
    return params


def interval(params, level=0.9):
    """Percentile interval of each parameter, (2, D), from params (n_resamples, D)."""
    tail = 0.5 * (1.0 - level)
    return np.quantile(params, [tail, 1.0 - tail], axis=0)


def jackknife_after_bootstrap(params, weights):
    """(standard errors (D,), their own standard errors (D,)) from one set of resamples (Efron 1992).

    The resamples that happen to leave out a site are a bootstrap of the other sites: no further fit
    is needed. Its Monte Carlo noise adds about se sqrt(e n / (2 n_resamples)), in quadrature.
    ValueError where some site is in all of them.
    """
    without = (weights == 0.0).T.astype(float)
    counts = without.sum(axis=1, keepdims=True)
    if counts.min() < 2:
        raise ValueError(
            f"site {np.argmin(counts)} is in all but {counts.min():.0f} resamples: draw more of them"
        )
    centred = params - params.mean(axis=0)
    variances = without @ centred**2 / counts - (without @ centred / counts) ** 2
    deviations = np.sqrt(variances)
    spread = (len(deviations) - 1) * deviations.var(axis=0)
    return params.std(axis=0, ddof=1), np.sqrt(spread)
