"""The traffic chapter: folds drawn again and again, and what each draw of ten says."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

import acvlib as acv
from acvlib.methods.ladder import IndefiniteFold

from .ladders import against_exact, correlation, part, pointwise

KINDS = ("iid", "contiguous")
PERCENTS = (2, 5, 10)
SETTINGS = [(kind, percent) for kind in KINDS for percent in PERCENTS]
N_FOLDS = 10  # of a draw, as in the paper
METHODS = ("no_adjustment", "infinitesimal_jackknife", "frozen_newton", "newton_step")

Rungs = Mapping[str, acv.CVResult]


def folds_of(kind, model, percent, n_folds, rng):
    """Folds of one scheme, each drawn independently of the others."""
    return getattr(acv.folds, kind)(model.n_sites, percent, n_folds, rng, model.observed)


@contextmanager
def quiet() -> Iterator[None]:
    """No warning of folds with an indefinite Hessian: a result marks them itself."""
    with warnings.catch_warnings(action="ignore", category=IndefiniteFold):
        yield


@quiet()
def ladder(model: Any, fit: acv.Fit, folds: acv.Folds) -> dict[str, acv.CVResult]:
    """`acv.ladder`, quiet."""
    return acv.ladder(fit, folds)


def redraws(model, fit, n_draws, rng):
    """All rungs by setting on n_draws independent draws of ten folds, one draw after the other."""
    return {
        (kind, percent): ladder(model, fit, folds_of(kind, model, percent, n_draws * N_FOLDS, rng))
        for kind, percent in SETTINGS
    }


def one_draw(rungs: Rungs, number: int) -> dict[str, acv.CVResult]:
    """The rungs on the ten folds of one draw."""
    rows = slice(number * N_FOLDS, (number + 1) * N_FOLDS)
    return {name: part(result, rows) for name, result in rungs.items()}


MEASURES = {"correlation": "R", "differences": "R of differences", "in_se": "in_se"}
MEASURES |= {"relative_error": "relative error", "two_sd": "two sd", "per_point": "per point"}


def by_draw(rungs: Rungs) -> pd.DataFrame:
    """One row a draw of ten folds; columns (measure, method): of `ladders.against_exact`, as named
    in MEASURES. Doing nothing adds nothing, so that its R of differences is 0.
    """
    draws = []
    for number in range(len(rungs["exact"].folds) // N_FOLDS):
        own = one_draw(rungs, number)
        table = against_exact(own).drop("exact")
        errors = [acv.relative_errors(own["exact"], own[name]) for name in table.index]
        table["two_sd"] = [2 * each.std(ddof=1) for each in errors]
        draws.append(table[[*MEASURES]].unstack())
    table = pd.DataFrame(draws)
    return table.fillna(0.0).rename(columns=MEASURES, level=0).rename_axis("draw")


def newton_against(rungs: Rungs) -> pd.DataFrame:
    """Figure 4, one row a draw: R of the Newton step's losses with the IJ's (ij), with those of no
    adjustment (none), and of the differences of the first two from the last (differences).
    """
    names = ("newton_step", "infinitesimal_jackknife", "no_adjustment")
    rows = []
    for number in range(len(rungs["exact"].folds) // N_FOLDS):
        ns, ij, none = (pointwise(one_draw(rungs, number)[name]) for name in names)
        rows.append((correlation(ns, ij), correlation(ns, none), correlation(ns - none, ij - none)))
    return pd.DataFrame(rows, columns=["ij", "none", "differences"]).rename_axis("draw")


def scheme_gap(models: tuple[Any, Any], params: np.ndarray, sites: np.ndarray) -> tuple:
    """Left-out sites under two schemes: (relative gap of the gradients, difference of F a site).

    Both by autograd, so that the schemes are compared and not the rounding of two programs.
    """
    weights = acv.folds.weights(models[0].n_sites, sites)
    pair = [acv.Derivatives(model).value_and_gradient(params, weights) for model in models]
    (value_a, gradient_a), (value_b, gradient_b) = pair
    gap = np.abs(gradient_a - gradient_b).max() / np.abs(gradient_a).max()
    return float(gap), float(value_a - value_b) / len(sites)


def estimates(exact, result, n_exact, n_draws, rng, level=0.95):
    """`acv.difference_estimate` from n_draws random sets of n_exact folds, one row a draw.

    All refits are known from `exact`, so that a draw costs nothing. half: t se, half the interval,
    Student's t with n_exact - 1 degrees of freedom; covers: whether the exact loss lies within;
    se_alone: the standard error of the mean of the same exact folds without the result.
    """
    acv.theta_errors(exact, result)  # refuses results of different folds
    n = len(exact.folds)
    scored = len(np.concatenate(exact.folds.scored)) / n
    totals = exact.fold_totals / scored
    gaps = totals - result.fold_totals / scored
    shrink = np.sqrt((1 - n_exact / n) / n_exact)
    drawn = np.array([rng.choice(n, n_exact, replace=False) for _ in range(n_draws)])
    table = pd.DataFrame(
        {
            "estimate": result.loss + gaps[drawn].mean(1),
            "se": shrink * gaps[drawn].std(1, ddof=1),
            "se_alone": shrink * totals[drawn].std(1, ddof=1),
        }
    )
    table["half"] = t.ppf(0.5 + level / 2, n_exact - 1) * table.se
    return table.assign(covers=(table.estimate - exact.loss).abs() <= table.half)
