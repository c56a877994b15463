"""Problems made to break certificates, held against refits with 50 digits: law 13."""

import warnings
from contextlib import suppress

import gmpy2
import numpy as np
from oracles.high_precision import LONG, expanded, refit, sites_of

import acvlib as acv
from acvlib.models import GLM, LinearChainCRF
from acvlib.trials import NoFiniteOptimum

METHODS = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step)
REFUSED = (ValueError, np.linalg.LinAlgError, NoFiniteOptimum, FloatingPointError)


def rows(rng, hazard):
    n, dim = int(rng.integers(8, 20)), int(rng.integers(1, 4))
    family = rng.choice(["logistic", "multinomial", "poisson", "poisson rate"])
    x = rng.normal(size=(n, dim))
    settings = {"penalty": 10.0 ** rng.uniform(-2, 1)}
    strength = 1.0
    if hazard == "near-separable":
        strength = 30.0
        settings["penalty"] = 10.0 ** rng.uniform(-8, -2)
    if hazard == "leverage":
        x[: max(1, n // 8)] *= 10.0 ** rng.uniform(0, 4)
    if hazard == "ridge":
        settings["penalty"] = 10.0 ** rng.choice([-14, -10, -6, 6, 12])
    if hazard == "few rows":
        x = rng.normal(size=(n, 6))[: rng.integers(5, 8)]
    eta = np.clip(strength * x @ rng.normal(size=x.shape[1]), -4.0, 4.0)
    if hazard == "units":
        x, unit = (x + rng.choice([0.0, 3.0, 2017.0])), 10.0 ** rng.uniform(-14, 14, x.shape[1])
        x, settings["penalty"] = x * unit, settings["penalty"] * unit**2
    if hazard == "weights":
        settings["sample_weight"] = 10.0 ** rng.uniform(-6, 6, len(x))
    if hazard == "float32":
        x = x.astype(np.float32)
    if hazard == "no intercept":
        settings["intercept"] = False
    size = 10.0 ** rng.uniform(0, 15) if hazard == "counts" else 1.0
    if family == "logistic":
        y = rng.random(len(x)) < 1.0 / (1.0 + np.exp(-eta))
    elif family == "multinomial":
        y = np.unique(np.digitize(eta + rng.logistic(size=len(x)), [-1.0, 1.0]), False, True)[1]
    else:
        y = np.round(rng.poisson(np.exp(eta)) * size)
        y = y * rng.random(len(x)) if family == "poisson rate" else y
    return GLM(x, y.astype(float), family, **settings)


def sentences(rng, hazard):
    n, k = int(rng.integers(5, 9)), 2
    lengths = np.ones(n, int) if hazard == "one token" else rng.integers(1, 5, n)
    tags = [rng.integers(k, size=t) for t in lengths]
    if hazard == "unseen tags":
        tags = [0 * each for each in tags]
        k = 3
    if hazard == "peaked":
        tags = [np.sort(each) for each in tags]
    scores = [rng.normal(size=(len(each), k)) + np.eye(k)[each] for each in tags]
    if hazard == "level":
        scores = [each + 10.0 ** rng.uniform(0, 12) for each in scores]
    ridge = 10.0 ** rng.uniform(-6 if hazard in ("peaked", "ridge") else -1, 2)
    weights = 10.0 ** rng.uniform(-6, 6, n) if hazard == "weights" else 1.0
    return LinearChainCRF(scores, tags, ridge, sample_weight=weights)


OF_ROWS = ["plain", "units", "counts", "near-separable", "ridge", "leverage", "weights"]
OF_ROWS += ["few rows", "float32", "no intercept", "far params", "garbage"]
OF_SENTENCES = ["plain", "one token", "unseen tags", "peaked", "level", "weights", "ridge"]
OF_SENTENCES += ["far params", "garbage"]
HAZARDS = [(rows, hazard) for hazard in OF_ROWS] + [(sentences, hazard) for hazard in OF_SENTENCES]


def problem(rng, make, hazard):
    """A result of any method, from any fit."""
    model = make(rng, hazard)
    fit = acv.fit(model, tolerance=1e-9)
    if rng.random() < 0.2:
        errors = rng.normal(size=len(fit.params)) * 10.0 ** rng.uniform(-6, 0)
        fit = acv.fit_at(model, fit.params + errors / np.sqrt(np.diag(np.asarray(fit.hessian))))
    parts = int(rng.choice([0, 0, 3, 5]))
    sites = acv.folds.k_fold(model, parts, rng) if parts else acv.folds.leave_one_out(model)
    result = METHODS[rng.integers(len(METHODS))](fit, sites)
    if hazard == "far params":
        result.params[:] += rng.normal(size=result.params.shape) * 10.0 ** rng.uniform(-3, 2)
    if hazard == "garbage":
        result.params[:] *= rng.choice([0.0, 1e3, 1e8, np.nan, np.inf, -1.0], result.params.shape)
    return result


@np.errstate(all="ignore")
def held(rng, make, hazard):
    """(folds, certified ones, the largest true over bound of distances, of losses)."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        result = problem(rng, make, hazard)
        proof = acv.certify(result, sharp=rng.random() < 0.4, complete=rng.random() < 0.2)
        start = acv.exact(result.fit, result.folds)
    result = proof.result
    starts = np.where(start.diagnostics["converged"][:, None], start.params, result.params)
    sites, ridge = sites_of(result.fit.model)
    _, metric = expanded(sites, ridge, LONG(result.fit.params))
    far = near = 0.0
    losses = []
    for row in np.flatnonzero(proof.certified):
        fold = result.folds[row]
        kept = np.setdiff1d(np.arange(len(sites)), fold)
        theta = refit([sites[n] for n in kept], ridge, starts[row])
        assert theta is not None, "a fold without a minimum is certified"
        off = LONG(result.params[row]) - theta
        far = max(far, float(gmpy2.sqrt(off @ metric @ off) / proof.theta_errors[row]))
        true = [sites[n].loss(theta) for n in fold]
        losses += true
        low, high = proof.lower.losses[row], proof.upper.losses[row]
        near = max([near, *map(_place, low, true, high)])
        low, high = proof.loss_interval[row]
        near = max(near, _place(low, sum(true) / len(true), high))
    if losses and proof.certified.all():
        near = max(near, _place(proof.interval[0], sum(losses) / len(losses), proof.interval[1]))
    return len(result.folds), int(proof.certified.sum()), far, near


def _place(low, true, high):
    """0 in the middle of an interval, 1 at its ends."""
    low, high = LONG([low, high])
    assert low <= high
    half = (high - low) / 2
    return float(abs(true - low - half) / half) if half > 0 else float(true != low) * 2.0


def campaign(n_folds, rng):
    """{hazard: [folds, certified, largest true over bound of distances, and of losses]}."""
    table = {f"{make.__name__}, {hazard}": [0, 0, 0.0, 0.0] for make, hazard in HAZARDS}
    while sum(line[1] for line in table.values()) < n_folds or not all(
        line[1] for line in table.values()
    ):
        for make, hazard in HAZARDS:
            with suppress(*REFUSED):
                folds, certified, far, near = held(rng, make, hazard)
                line = table[f"{make.__name__}, {hazard}"]
                line[0] += folds
                line[1] += certified
                line[2:] = max(line[2], far), max(line[3], near)
    return dict(table)
