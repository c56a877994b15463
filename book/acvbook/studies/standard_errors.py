"""What a standard error of cross-validation is worth: how often its interval covers the truth."""

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.models import GLM

N_ROWS, N_TRUTH = 200, 20_000
SLOPES = np.array([1.0, -0.7, 0.5, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0])
# Columns and ridge of each model, and the pairs of models that are close.
MODELS = {"five": (5, 1.0), "six": (6, 1.0), "ten": (10, 1.0), "four": (4, 1.0), "firm": (5, 10.0)}
PAIRS = {"noise": "six", "noises": "ten", "dropped": "four", "ridge": "firm"}  # each beside five
WORDS = {
    "noise": "one column of noise more",
    "noises": "five columns of noise more",
    "dropped": "a column dropped, slope 0.2",
    "ridge": "ten times the ridge",
}
SCHEMES = {"loo": "leave-one-out", "ten": "ten folds"}
LEVEL = 1.96  # standard errors on either side
FEW = 10  # folds of leave-one-out whose models stand for all in the truth: they hardly differ


def drawn(family, n, rng):
    """X (n, 10) and y (n,); the last five columns are noise."""
    X = rng.standard_normal((n, len(SLOPES)))
    eta = X @ SLOPES
    if family == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
    if family == "gaussian":
        return X, eta + rng.standard_normal(n)
    return X, rng.poisson(np.exp(0.5 * eta)) * 1.0


def one_draw(family, rng):
    """Whether the interval covers the truth, by `dse` and by pairs of losses alone: one row a
    scheme and pair. All are of the same data.
    """
    X, y = drawn(family, N_ROWS, rng)
    fresh_X, fresh_y = drawn(family, N_TRUTH, rng)
    models = {}
    for name, (columns, ridge) in MODELS.items():
        fresh = GLM(fresh_X[:, :columns], fresh_y, family, penalty=ridge)
        models[name] = acv.fit(GLM(X[:, :columns], y, family, penalty=ridge)), fresh
    rows = {}
    for scheme in SCHEMES:
        folds = acv.folds.k_fold(N_ROWS, 10 if scheme == "ten" else N_ROWS, rng)
        some = rng.choice(len(folds), FEW, replace=False)
        results, truth = {}, {}
        for name, (fit, fresh) in models.items():
            results[name] = acv.exact(fit, folds)
            params = results[name].params[some]
            truth[name] = np.mean([fresh.heldout_loss(p, np.arange(N_TRUTH)) for p in params])
        for pair, other in PAIRS.items():
            rows[scheme, pair] = _covers({name: results[name] for name in ("five", other)}, truth)
    return pd.DataFrame(rows).T


def _covers(results, truth):
    table = acv.compare_models(results)
    best, other = table.index
    gap = table.elpd_diff[other] / N_ROWS - (truth[other] - truth[best])
    errors = table.loc[other, ["dse", "dse_paired"]].astype(float)
    return LEVEL * errors / N_ROWS >= abs(gap)


def coverage(n_draws, rng):
    """One row a family, scheme and pair: the share of draws that each interval covers."""
    families = ("logistic", "gaussian", "poisson")
    shares = {
        family: sum(one_draw(family, own).astype(float) for own in rng.spawn(n_draws)) / n_draws
        for family in families
    }
    return pd.concat(shares, names=["family", "folds", "pair"])
