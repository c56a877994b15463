"""How the error of each method grows with the size of the folds: the numbers of the slider."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from IPython.display import HTML

import acvlib as acv
from acvlib.plots import RUNGS

PERCENTS = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 50)
METHODS = ("no_adjustment", "infinitesimal_jackknife", "frozen_newton", "newton_step")
LABELS = {method: RUNGS[method].label for method in METHODS}
MEASURES = {"theta": "parameters (standard errors)", "loss": "loss (nats)"}
FOLDS = 10
QUANTILES = (0.1, 0.5, 0.9)
LEAST = 1e-9  # standard errors or nats: below is the tolerance of the refits


def regression(family: str, strength: float) -> Callable:
    """A draw of a regression of 1,000 rows and 20 covariates."""

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


def errors_by_size(n_draws: int, rng: np.random.Generator) -> pd.DataFrame:
    """A row for each model, draw, fold size, fold and method: the errors of parameters, in standard
    errors, and of the mean held-out loss, in nats, beside refits; nan where the refit did not
    converge.
    """
    rows = []
    for name, (draw, folds_of) in MODELS.items():
        for of_draw in rng.spawn(n_draws):
            model = draw(of_draw)
            fit = acv.fit(model, rng=of_draw)
            for percent in PERCENTS:
                if percent * model.n_sites >= 100:  # at least one site
                    folds = folds_of(model.n_sites, percent, FOLDS, of_draw)
                    rows += [
                        {"model": name, "percent": percent, **row} for row in errors(fit, folds)
                    ]
    return pd.DataFrame(rows)


def errors(fit, folds):
    """The rows of one fit and one fold size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of folds that no single step reaches: they are shown
        rungs = acv.ladder(fit, folds)
        exact = rungs["exact"]
        usable = np.where(exact.diagnostics["converged"], 1.0, np.nan)
        for method in METHODS:
            theta = acv.theta_errors(exact, rungs[method]) * usable
            loss = np.abs(rungs[method].fold_losses - exact.fold_losses) * usable
            for pair in zip(theta, loss, strict=True):
                yield {
                    "method": method,
                    **dict(zip(MEASURES, np.maximum(pair, LEAST), strict=True)),
                }


def medians(errors: pd.DataFrame) -> pd.DataFrame:
    """A row for each model and fold size, a column for each method and measure: medians over folds
    and draws.
    """
    table = errors.groupby(["model", "percent", "method"], sort=False)[[*MEASURES]].median()
    table = table.rename(columns=MEASURES).unstack("method")
    return table.rename(columns=LABELS).rename_axis(columns=[None, None])


def slider(errors: pd.DataFrame) -> HTML:
    """The place of the picture, and its numbers, to three digits."""
    levels = errors.groupby(["model", "method", "percent"], sort=False)[[*MEASURES]]
    levels = levels.quantile(QUANTILES).unstack().map(lambda value: float(f"{value:.3g}"))
    models = {}
    for (name, method), part in levels.groupby(["model", "method"], sort=False):
        model = models.setdefault(name, {"theta": {}, "loss": {}})
        model["percents"] = part.index.get_level_values("percent").tolist()
        for measure in MEASURES:
            model[measure][method] = part[measure].to_numpy().tolist()
    data = json.dumps(models | {"labels": LABELS, "measures": MEASURES})
    return HTML(
        '<div class="fold-sizes" hidden></div>'
        f'<script type="application/json" id="fold-sizes-data">{data}</script>'
    )
