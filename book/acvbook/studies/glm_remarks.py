"""Two remarks of Giordano et al. (2019): weights that are too far from 1 (Section 3), and fits that
are no optimum (Section 6).
"""

import warnings

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import acvlib as acv
from acvlib.models import GLM
from acvlib.trials import UnconvergedFit

from .glm_errors import APPROXIMATE, truth
from .ladders import slope

PENALTY = 1.0
RUNGS = {"none" if name == "train" else name: rung for name, rung in APPROXIMATE.items()}
SMALL = np.geomspace(1e-5, 1e-4, 5)
"""Shares of the way to all weight on one site at which the order of the error is measured."""


def all_weight_on_one(family, sizes, dim, n_draws, rng):
    """The IJ from w = 1 to all weight on the site with the largest gradient: a row for each draw
    and size.

    relative: the IJ's error over that of doing nothing, with all weight there; left_out: the same
    for that site left out; order_ij, order_none: slopes of log error on the log share of the way,
    at SMALL.
    """
    cells = [(draw, n) for draw in range(n_draws) for n in sizes]
    return pd.DataFrame(
        [{"draw": draw, "n": n} | _one_site_row(family, n, dim, rng) for draw, n in cells]
    )


def _one_site_row(family, n, dim, rng):
    model = _penalised(family, n, dim, rng)
    full = acv.fit(model, tolerance=1e-10)
    site = largest_gradient(model, full)
    ij, none = toward_one_site(model, full, site, np.array([1.0, *SMALL]))
    left_ij, left_none = _errors(model, full, 1.0 - np.eye(1, n, site))
    return {
        "relative": ij[0] / none[0],
        "left_out": left_ij[0] / left_none[0],
        "order_ij": slope(SMALL, ij[1:]),
        "order_none": slope(SMALL, none[1:]),
    }


def way_to_one_site(family, n, dim, shares, rng):
    """Errors none and ij on one data set, in standard errors, indexed by the share of the way."""
    model = _penalised(family, n, dim, rng)
    full = acv.fit(model, tolerance=1e-10)
    ij, none = toward_one_site(model, full, largest_gradient(model, full), shares)
    index = pd.Index(shares, name="share of the way to all weight on one site")
    return pd.DataFrame({"none": none, "ij": ij}, index=index)


def _penalised(family, n, dim, rng):
    """With a penalty on all parameters there is an optimum wherever the weights are."""
    data = truth(family, dim, rng).draw(n, rng)
    return GLM(*data, family, penalty=PENALTY, intercept=False)


def largest_gradient(model, full):
    """The site whose gradient has the largest L1 norm at the fit."""
    gradients = acv.derivatives_of(model).cross_matrix(full.params, np.ones(model.n_sites))
    return int(np.argmax(abs(gradients).sum(axis=0)))


def toward_one_site(model, full, site, shares):
    """(errors of IJ, of doing nothing) in standard errors, at each share of the way from weights 1
    to weight N on `site` and 0 elsewhere.
    """
    direction = -np.ones(model.n_sites)
    direction[site] += model.n_sites
    return _errors(model, full, 1.0 + np.outer(shares, direction))


def _errors(model, full, weights):
    refits = acv.bootstrap.refits(full, weights, tolerance=1e-10)
    ij = acv.bootstrap.jackknife_params(full, weights)
    return [full.standard_errors_between(of, refits) for of in (ij, full.params)]


def away_from_optimum(n, dim, tolerances, n_draws, rng):
    """Leave-one-out from where BFGS ends, on the mean loss, with each gradient tolerance: a row for
    each draw and tolerance.

    distance: of the end from the optimum, and each rung's median error, both in standard errors.
    """
    rows = []
    for draw in range(n_draws):
        model = GLM(*truth("logistic", dim, rng).draw(n, rng))
        best = acv.fit(model, tolerance=1e-10)
        reference = acv.exact(best, acv.folds.leave_one_out(n)).params
        for tolerance in tolerances:
            end = acv.fit_at(model, bfgs(model, np.zeros(dim + 1), np.ones(n), tolerance))
            row = {"draw": draw, "tolerance": tolerance}
            rows.append(row | _errors_from(model, end, best, reference))
    return pd.DataFrame(rows)


def _errors_from(model, end, best, reference):
    row = {"distance": float(best.standard_errors_between(end.params, best.params))}
    folds = acv.folds.leave_one_out(model.n_sites)
    with warnings.catch_warnings(action="ignore", category=UnconvergedFit):
        for name, rung in RUNGS.items():
            params = rung(end, folds).params
            row[name] = np.median(best.standard_errors_between(params, reference))
    return row


SCALES = {"like": 0.0, "unlike": 2.0}
"""Covariates of one scale, and of scales from 1e-2 to 1e2."""


def match_of_optimisers(n, dim, n_folds, n_draws, rng):
    """How well the IJ predicts refits by the optimiser that made the fit: a row for each draw and
    each of SCALES.

    bfgs, second: the IJ's median error over the median move of the refits, in n_folds left-out
    sites, by BFGS and by a trust region of Newton steps that is preconditioned by H where BFGS
    ended; bfgs_distance, second_distance: how far the two ended from the optimum, in standard
    errors.
    """
    rows = []
    for draw in range(n_draws):
        source = truth("logistic", dim, rng)
        x, y = source.draw(n, rng)
        for name, decades in SCALES.items():
            model = GLM(x * np.logspace(-decades, decades, dim), y)
            rows.append({"draw": draw, "scales": name} | _match(model, n_folds))
    return pd.DataFrame(rows)


def _match(model, n_folds):
    ones = np.ones(model.n_sites)
    end = bfgs(model, np.zeros(model.n_params), ones)
    root = np.linalg.cholesky(np.asarray(acv.derivatives_of(model).hessian(end, ones)))
    best = acv.fit(model, tolerance=1e-10)

    def second(model, start, weights):
        return trust_region(model, start, weights, root)

    row = {}
    for name, optimiser in {"bfgs": bfgs, "second": second}.items():
        full = acv.fit_at(model, optimiser(model, end, ones))
        row[name] = mismatch(model, full, n_folds, optimiser)
        row[f"{name}_distance"] = float(best.standard_errors_between(full.params, best.params))
    return row


def mismatch(model, full, n_folds, optimiser):
    """Median error of the IJ against refits by `optimiser`, over the median move of these."""
    sites = np.arange(n_folds)[:, None]
    weights = 1.0 - np.eye(n_folds, model.n_sites)
    refits = np.array([optimiser(model, full.params, row) for row in weights])
    with warnings.catch_warnings(action="ignore", category=UnconvergedFit):
        ij = acv.infinitesimal_jackknife(full, acv.Folds(sites)).params
    errors, moves = (full.standard_errors_between(a, refits) for a in (ij, full.params))
    return np.median(errors) / np.median(moves)


def bfgs(model, start, weights, tolerance=1e-5):
    """Where scipy's BFGS ends on the mean of the weighted losses."""
    function = _mean_loss(model, weights)
    return minimize(function, start, jac=True, method="BFGS", options={"gtol": tolerance}).x


def trust_region(model, start, weights, root):
    """Where scipy's trust-ncg ends, on the mean loss, in coordinates root' theta."""
    function = _mean_loss(model, weights)
    inverse = np.linalg.inv(root).T

    def value(moved):
        found, gradient = function(inverse @ moved)
        return found, gradient @ inverse

    def hessian(moved):
        full = np.asarray(acv.derivatives_of(model).hessian(inverse @ moved, weights))
        return inverse.T @ full @ inverse / model.n_sites

    options = {"gtol": 1e-10}
    found = minimize(
        value, root.T @ start, jac=True, hess=hessian, method="trust-ncg", options=options
    )
    return inverse @ found.x


def _mean_loss(model, weights):
    derivatives = acv.derivatives_of(model)

    def function(params):
        value, gradient = derivatives.value_and_gradient(params, weights)
        return value / model.n_sites, gradient / model.n_sites

    return function
