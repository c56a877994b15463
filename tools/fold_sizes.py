"""fold_sizes.py FOLDER: how the error of each method grows with the size of the folds.

Simulated data of a few models, at the scale FOLDER is named after; FOLDER/fold_sizes.json receives
the errors of every method beside exact refits. The page of that name shows them.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from acvbook import ledger, origin
from acvbook.whole import write

import acvlib as acv

PERCENTS = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 50)
SEED = 1
FILE = "fold_sizes.json"
METHODS = ("no_adjustment", "infinitesimal_jackknife", "frozen_newton", "newton_step")
DRAWS, FOLDS = {"quick": 1, "paper": 20}, 10
QUANTILES = (0.1, 0.5, 0.9)
LEAST = 1e-9  # standard errors or nats: below is the tolerance of the refits


def regression(family, strength):
    """(a regression of 1,000 rows and 20 covariates, its folds of random rows)."""

    def draw(rng):
        X = rng.standard_normal((1000, 20))
        eta = X @ rng.standard_normal(20) * strength / np.sqrt(20)
        if family == "logistic":
            y = (rng.random(1000) < 1 / (1 + np.exp(-eta))) * 1.0
        else:
            y = rng.poisson(np.exp(eta)) * 1.0
        return acv.models.GLM(X, y, family, penalty=1.0)

    return draw


def series(rng):
    """A hidden Markov model of 1,000 steps: two states that persist, two deviations apart."""
    flips = rng.random(1000) < 0.05
    hidden = np.cumsum(flips) % 2
    return acv.models.GaussianHMM(rng.normal(2.0 * hidden), n_states=2)


def field(rng):
    """A map of 30 rows of 8 squares, a low half and a high half, 240 counts."""
    rows, columns = 30, 8
    place = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)
    along = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    counts = rng.poisson(np.where(place < place.size // 2, 4.0, 8.0)).ravel()
    return acv.models.HiddenMRF(counts, np.concatenate([across, along]), coupling=0.3)


MODELS = {
    "logistic regression, random rows": (regression("logistic", 1.5), acv.folds.iid),
    "Poisson regression, random rows": (regression("poisson", 0.5), acv.folds.iid),
    "hidden Markov model, random steps": (series, acv.folds.iid),
    "hidden Markov model, blocks of steps": (series, acv.folds.contiguous),
    "hidden field on a map, random areas": (field, acv.folds.iid),
}


def errors_of(draw, folds_of, n_draws, rng):
    """({percent: {method: [(error of the parameters, error of the loss), ...]}}, how many folds
    are left out as their refit did not converge).
    """
    found, lost = {}, 0
    for own in rng.spawn(n_draws):
        model = draw(own)
        fit = acv.fit(model, rng=own)
        for percent in PERCENTS:
            if percent * model.n_sites < 100:
                continue  # less than one site
            rungs = acv.ladder(fit, folds_of(model.n_sites, percent, FOLDS, own))
            exact = rungs["exact"]
            converged = exact.diagnostics["converged"]
            lost += int((~converged).sum())
            for method in METHODS:
                theta = acv.theta_errors(exact, rungs[method])
                loss = np.abs(rungs[method].fold_losses - exact.fold_losses)
                pairs = np.stack([theta, loss], axis=1)[converged]
                found.setdefault(percent, {}).setdefault(method, []).extend(pairs)
    return found, lost


def table(draw, folds_of, n_draws, rng):
    """What the page shows of one model: quantiles over folds and draws, by measure and method, to
    three digits.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of folds that no single step reaches: they are shown
        found, lost = errors_of(draw, folds_of, n_draws, rng)
    curves = {"theta": {}, "loss": {}}
    for method in METHODS:
        errors = [np.maximum(by_method[method], LEAST) for by_method in found.values()]
        for place, curve in enumerate(curves.values()):
            levels = [np.quantile(pairs[:, place], QUANTILES) for pairs in errors]
            curve[method] = [[float(f"{value:.3g}") for value in level] for level in levels]
    return {"percents": list(found), "lost": lost, **curves}


def main(folder):
    folder = Path(folder)
    scale = folder.name
    started, commit = time.time(), ledger.commit()
    rng = np.random.default_rng(SEED)
    models = {
        name: table(*about, DRAWS[scale], own)
        for (name, about), own in zip(MODELS.items(), rng.spawn(len(MODELS)), strict=True)
    }
    numbers = {"seed": SEED, "draws": DRAWS[scale], "folds": FOLDS, "models": models}
    write(folder / FILE, json.dumps(numbers))
    run = origin.origin(__file__, origin.seen(), started, commit) | {"files": [FILE]}
    write(folder / "runs" / FILE, json.dumps(run, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
