"""Proposition 5 of Ghosh et al. (2020): the mean gradient norm of logistic regression, on data.

The statement: P(| mean_n |grad f(theta_hat, x_n)| - sqrt(D) | >= t) <= exp(-C N t^2 / c_x^2), one C
for all N, D and sub-Gaussian laws of the covariates. Its proof bounds the gradient's norm by |x_n|,
which serves the upper tail alone, and needs covariates of variance 1, as all of LAWS are.
"""

import numpy as np
import pandas as pd

from acvlib.fit import fit
from acvlib.models import GLM

LAWS = {
    "Rademacher": (lambda rng, shape: rng.choice([-1.0, 1.0], shape), 1.0 / np.log(2.0)),
    "Gaussian": (lambda rng, shape: rng.standard_normal(shape), 8.0 / 3.0),
    "sparse 1/5": (lambda rng, shape: _sparse(rng, shape, 0.2), 5.0 / np.log(6.0)),
    "sparse 1/20": (lambda rng, shape: _sparse(rng, shape, 0.05), 20.0 / np.log(21.0)),
}
"""Names to (draw, c_x^2), c_x the least number with E exp(x^2 / c_x^2) <= 2."""


def _sparse(rng, shape, share):
    """0 but for a share of +-1 / sqrt(share): variance 1, heavy tails where it is small."""
    return rng.choice([-1.0, 1.0], shape) * (rng.random(shape) < share) / np.sqrt(share)


def mean_norms(law, n, dim, n_repeats, rng):
    """mean_n |grad f(theta_hat, x_n)| - sqrt(D), (n_repeats,)."""
    norms = []
    for _ in range(n_repeats):
        x = LAWS[law][0](rng, (n, dim))
        model = GLM(x, rng.integers(0, 2, n), intercept=False)
        slopes = model.family.slope(x @ fit(model).params, model.y)
        norms.append(np.mean(abs(slopes) * np.linalg.norm(x, axis=1)))
    return np.array(norms) - np.sqrt(dim)


def tails(settings, n_repeats, rng):
    """For each (law, n, dim): centres and tails of the deviations,
    at t = the spread that the rate allows.

    t = c_x / sqrt(N), where the statement's bound is exp(-C) whatever N, D and c_x. upper,
    two_sided: shares of the gradient's mean beyond t; scaled_sd: its standard deviation over t.
    """
    rows = []
    for law, n, dim in settings:
        norms, t = mean_norms(law, n, dim, n_repeats, rng), np.sqrt(LAWS[law][1] / n)
        shares = {"upper": (norms >= t).mean(), "two_sided": (abs(norms) >= t).mean()}
        about = {"law": law, "n": n, "dim": dim, "t": t, "centre": norms.mean()}
        rows.append(about | shares | {"scaled_sd": norms.std(ddof=1) / t})
    return pd.DataFrame(rows)


def rate(table):
    """The slope of the log sd of the gradient's mean on log n, common to laws and dims."""
    logs = pd.DataFrame({"n": np.log(table.n), "sd": np.log(table.scaled_sd * table.t)})
    within = logs - logs.groupby([table.law, table.dim]).transform("mean")
    return float(within.n @ within.sd / (within.n @ within.n))
