"""Leave-future-out beside what users run: a refit for each origin, or one a week."""

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.beyond.prefixes import futures
from acvlib.models import PoissonTraffic

WEEK = 7 * 288  # five-minute counts


class Scores(NamedTuple):
    """Scores of all origins by one scheme: losses (n,), params (n, D), refits, seconds."""

    losses: np.ndarray
    params: np.ndarray
    refits: int
    seconds: float


class Series(NamedTuple):
    """A fitted model of one series, and the origins whose next observation is predicted."""

    model: Any
    fit: acv.Fit
    starts: np.ndarray


def traffic(data: Any, first: int = 4 * WEEK) -> Series:
    """Every observed count after four weeks, predicted from all counts before it."""
    model = PoissonTraffic(data.counts, data.day)
    sites = np.flatnonzero(model.observed)
    return Series(model, acv.fit(model), sites[sites >= first])


def in_one_pass(series: Series, anchors: int) -> Scores:
    """`acv.leave_future_out`."""
    with warnings.catch_warnings(action="ignore"):
        found = acv.leave_future_out(series.fit, series.starts, anchors=anchors)
    return Scores(found.losses, found.params, found.evaluations["refit"], found.seconds)


def doing_nothing(series: Series) -> Scores:
    """All origins at the params of the full fit, which has seen their future."""
    model, fit, starts = series
    began = time.perf_counter()
    found = futures(acv.derivatives_of(model), fit.params, starts)
    params = np.tile(fit.params, (len(starts), 1))
    return Scores(-found.log_p[:, 0], params, 0, time.perf_counter() - began)


def one_refit_a_week(series: Series) -> Scores:
    """A refit at the first origin of each week serves the whole week."""
    model, fit, starts = series
    began = time.perf_counter()
    weeks = (starts - starts[0]) // WEEK
    _, first = np.unique(weeks, return_index=True)
    losses = np.empty(len(starts))
    params = np.empty((len(starts), len(fit.params)))
    refits = acv.exact(fit, _folds(series, first)).params
    for rows, point in zip(np.split(np.arange(len(starts)), first[1:]), refits, strict=True):
        found = futures(acv.derivatives_of(model), point, starts[rows])
        losses[rows] = -found.log_p[:, 0]
        params[rows] = point
    return Scores(losses, params, len(first), time.perf_counter() - began)


def _folds(series, rows):
    model, _, starts = series
    return acv.folds.leave_future_out(model.n_sites, starts[rows], 1, observed=model.observed)


def refitted(series: Series, rows: np.ndarray, at_once: int = 64) -> Scores:
    """Exact refits of some origins, nan where one fails; the seconds are in proportion for all."""
    began = time.perf_counter()
    parts = [rows[i : i + at_once] for i in range(0, len(rows), at_once)]
    with warnings.catch_warnings(action="ignore"):
        results = [acv.exact(series.fit, _folds(series, part)) for part in parts]
    seconds = (time.perf_counter() - began) * len(series.starts) / len(rows)
    losses = np.concatenate([loss for result in results for loss in result.losses])
    params = np.concatenate([result.params for result in results])
    lost = ~np.concatenate([result.diagnostics["converged"] for result in results])
    losses[lost] = np.nan
    params[lost] = np.nan
    return Scores(losses, params, len(series.starts), seconds)


def errors(series: Series, schemes: dict[str, Scores], rows: np.ndarray, exact: Scores) -> Any:
    """Errors at some origins, a row each, by scheme: losses in nats, params in standard errors."""
    tables = {}
    for name, scores in schemes.items():
        tables["loss", name] = scores.losses[rows] - exact.losses
        gaps = series.fit.standard_errors_between(scores.params[rows], exact.params)
        tables["params", name] = gaps
    return pd.DataFrame(tables)


def summary(found: pd.DataFrame, schemes: dict[str, Scores], exact: Scores) -> pd.DataFrame:
    """Median errors over the origins, refits, seconds and their gain over exact, a row a scheme;
    in_se: error of the mean score, in standard errors of that of all origins.
    """
    middle = found.abs().median().unstack(0)
    table = middle.reindex(list(schemes))
    table["over_spread"] = table.loss / np.nanstd(exact.losses)
    n = [len(scores.losses) for scores in schemes.values()]
    table["in_se"] = found["loss"].mean().abs() * np.sqrt(n) / np.nanstd(exact.losses)
    table["refits"] = [scores.refits for scores in schemes.values()]
    table["seconds"] = [scores.seconds for scores in schemes.values()]
    table["ahead"] = exact.seconds / table.seconds
    return table


def by_draw(found: pd.DataFrame, exact: Scores, n_draws: int, rng: np.random.Generator) -> Any:
    """Median errors over random halves of the same origins, one row a draw, and the spread."""
    draws = []
    for _ in range(n_draws):
        rows = rng.choice(len(found), len(found) // 2, replace=False)
        draws.append(found.iloc[rows].abs().median())
        draws[-1].loc["spread"] = np.nanstd(exact.losses[rows])
    return pd.DataFrame(draws)
