"""Corollary 1 and Theorem 1 of Giordano et al. (2019) on data,
and the coverage of bootstrap intervals.
"""

import numpy as np
import pandas as pd

from acvlib import bootstrap
from acvlib.bounds import theorem1
from acvlib.fit import fit
from acvlib.folds import bootstrap_weights, leave_one_out
from acvlib.methods.exact import exact
from acvlib.methods.jackknife import infinitesimal_jackknife
from acvlib.methods.newton_step import newton_step
from acvlib.models import GLM

from .glm_errors import truth

DESIGNS = {
    "bounded": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "heavy-tailed": lambda rng, shape: (
        rng.standard_t(5.0, shape) / np.sqrt(5.0 / 3.0)
    ),  # variance 1
}


def logistic_data(design, n, dim, rng):
    """A GLM with covariates of one of DESIGNS and a slope of 1 / sqrt(D) in each."""
    x = DESIGNS[design](rng, (n, dim))
    mean = 1.0 / (1.0 + np.exp(-x.sum(axis=1) / np.sqrt(dim)))
    return GLM(x, rng.binomial(1, mean))


def _distance(result, reference):
    return np.linalg.norm(result.params - reference.params, axis=1)


def leave_k_out(design, sizes, k, dim, n_repeats, rng):
    """The largest Euclidean error of theta over folds of k sites, IJ and NS:
    n_repeats rows for each size.

    Folds: n / k disjoint ones of sites whose removal moves the first parameter alike, so that the
    worst sites leave together; for k = 1 all sites.
    """
    rows = [_largest_errors(design, n, k, dim, rng) for n in sizes for _ in range(n_repeats)]
    return pd.DataFrame(rows, columns=["n", "ij", "ns"])


def _largest_errors(design, n, k, dim, rng):
    model = logistic_data(design, n, dim, rng)
    full = fit(model, tolerance=1e-10)
    pull = infinitesimal_jackknife(model, full, leave_one_out(n)).params[:, 0]
    folds = np.sort(np.argsort(pull)[: n // k * k].reshape(-1, k), axis=1)
    reference = exact(model, full, folds, tolerance=1e-10)
    rungs = infinitesimal_jackknife, newton_step
    return n, *(_distance(rung(model, full, folds), reference).max() for rung in rungs)


def slopes(table):
    """d log(error) / d log(n) of IJ and NS by least squares, from a table of `leave_k_out`."""
    return {
        rung: float(np.polyfit(np.log(table.n), np.log(table[rung]), 1)[0]) for rung in ("ij", "ns")
    }


def theorem1_on_data(settings, rng):
    """For each (n, dim): Theorem 1's share of folds that it applies to,
    and its bound over the actual error.

    violated: folds where it applies and the actual error is larger; unconditional: folds where the
    formula is smaller than the actual error whether or not the condition holds.
    """
    return pd.DataFrame([_theorem1_row(n, dim, rng) for n, dim in settings])


def _theorem1_row(n, dim, rng):
    model = logistic_data("bounded", n, dim, rng)
    folds, full = leave_one_out(n), fit(model, tolerance=1e-10)
    theorem = theorem1(model, full, folds)
    reference = exact(model, full, folds, tolerance=1e-10)
    actual = _distance(infinitesimal_jackknife(model, full, folds), reference)
    constants = {
        "n": n,
        "dim": dim,
        "c_op": theorem.c_op,
        "c_ij": theorem.c_ij,
        "limit": theorem.limit,
    }
    return constants | {
        "delta": theorem.delta.max(),
        "applies": theorem.applies.mean(),
        "violated": int((actual > theorem.bound)[theorem.applies].sum()),
        "unconditional": int((actual > theorem.bound).sum()),
        "bound": theorem.bound.max(),
        "actual": actual.max(),
        "ratio": np.median(theorem.bound / actual),
    }


def coverage(family, n_sets, n, dim, n_resamples, level, rng):
    """One row a data set: the share of the D + 1 true parameters inside each interval,
    and mean widths.
    """
    rows = [_coverage_row(family, n, dim, n_resamples, level, rng) for _ in range(n_sets)]
    return pd.DataFrame(rows)


def _coverage_row(family, n, dim, n_resamples, level, rng):
    source = truth(family, dim, rng)
    model = GLM(*source.draw(n, rng), family)
    full, weights = fit(model), bootstrap_weights(n, n_resamples, rng)
    true = np.concatenate([[source.intercept], source.beta])
    row = {}
    for name, function in {"ij": bootstrap.jackknife_params, "bootstrap": bootstrap.refits}.items():
        low, high = bootstrap.interval(function(model, full, weights), level)
        row |= {name: np.mean((low <= true) & (true <= high)), f"{name}_width": np.mean(high - low)}
    return row
