"""How far each rung is from exact refits, power laws, stopwatches: the same for all chapters."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import acvlib as acv

# What chapters on regressions and genes call the rungs, whose estimates they hold side by side.
ESTIMATES = {"train": acv.no_adjustment, "ij": acv.infinitesimal_jackknife}
ESTIMATES |= {"frozen": acv.frozen_newton, "ns": acv.newton_step, "exact": acv.exact}


def pointwise(result: acv.CVResult) -> np.ndarray:
    """The losses of all left-out sites, folds one after another."""
    return np.concatenate(result.losses)


def part(result: acv.CVResult, rows: Any) -> acv.CVResult:
    """The result on some of its folds."""
    return replace(
        result,
        folds=result.folds[rows],
        params=result.params[rows],
        losses=result.losses[rows],
        indefinite=None if result.indefinite is None else result.indefinite[rows],
        diagnostics={name: values[rows] for name, values in result.diagnostics.items()},
    )


def some(folds: acv.Folds, n: int, rng: np.random.Generator) -> acv.Folds:
    """At most `n` of the folds, drawn at random."""
    if len(folds) <= n:
        return folds
    return folds[np.sort(rng.choice(len(folds), n, replace=False))]


def correlation(a: Any, b: Any) -> float:
    """Pearson's R; nan where one of them does not vary, as the differences of doing nothing."""
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0.0 < np.ptp(b) else float("nan")


def against_exact(results, losses_of=pointwise, unit=1.0):
    """One row a rung, exact among them: how far its losses and its params are from the refits'.

    results: by rung, with `exact` and `no_adjustment`; losses_of: which losses. correlation: of
    losses; differences: of what a rung and the refit add to those of no adjustment; per_point: mean
    |loss / exact loss - 1|; relative_error: the same of fold losses; worst: in standard deviations
    of the exact losses; in_se: of the mean loss, in standard errors of exact CV itself. theta,
    theta_max: distance of params in standard errors, or `unit` of them, median and largest over
    folds; share: of theta in that of no adjustment; beats_none, beats_ij: in what share of folds it
    is no larger.
    """
    losses = {name: losses_of(result) for name, result in results.items()}
    theta = {n: acv.theta_errors(results["exact"], r) / unit for n, r in results.items()}
    exact, none = losses["exact"], losses["no_adjustment"]
    error = results["exact"].se if losses_of is pointwise else exact.std(ddof=1) / len(exact) ** 0.5
    nothing, jackknife = theta["no_adjustment"], theta.get("infinitesimal_jackknife", np.nan)
    rows = {}
    for name, result in results.items():
        gap = losses[name] - exact
        with np.errstate(divide="ignore", invalid="ignore"):
            per_point = np.mean(abs(losses[name] / exact - 1))
            relative = acv.relative_errors(results["exact"], result).mean()
        rows[name] = {
            "loss": losses[name].mean(),
            "in_se": abs(gap.mean()) / error,
            "mean_error": abs(gap).mean(),
            "worst": abs(gap).max() / exact.std(),
            "per_point": per_point,
            "relative_error": relative,
            "correlation": correlation(losses[name], exact),
            "differences": correlation(losses[name] - none, exact - none),
            "theta": np.median(theta[name]),
            "theta_max": theta[name].max(),
            "share": np.median(theta[name]) / np.median(nothing),
            "beats_none": np.mean(theta[name] <= nothing),
            "beats_ij": np.mean(theta[name] <= jackknife),
            "indefinite": 0 if result.indefinite is None else int(result.indefinite.sum()),
            "seconds": result.seconds,
        }
    return pd.DataFrame(rows).T.rename_axis("rung")


def theta_table(results: Mapping[str, acv.CVResult]) -> pd.DataFrame:
    """Distances of the params from the exact ones, in standard errors: (n_folds, rungs)."""
    exact = results["exact"]
    rungs = {name: result for name, result in results.items() if name != "exact"}
    return pd.DataFrame({name: acv.theta_errors(exact, run) for name, run in rungs.items()})


def slope(size: Any, work: Any) -> float:
    """The exponent of a power law, by least squares on logarithms."""
    logs = np.log(np.asarray(size, float)), np.log(np.asarray(work, float))
    return float(np.polyfit(*logs, 1)[0])


def slopes(table: pd.DataFrame, columns: Any = None) -> pd.Series:
    """`slope` of each column of a table, or of these, against its index."""
    return pd.Series({name: slope(table.index, table[name]) for name in columns or table})


def timed(function: Callable, clock: Callable = time.perf_counter) -> tuple[Any, float]:
    """What a call returns, and its seconds by the clock of the wall or another."""
    started = clock()
    found = function()
    return found, clock() - started


def seconds(function: Callable, repeats: int = 1, clock: Callable = time.perf_counter) -> list:
    """Seconds of each of some calls."""
    return [timed(function, clock)[1] for _ in range(repeats)]


def theta_by_draw(draw, n_draws, rng):
    """Median parameter error of each rung; one row a draw of data and of 20 blocks of 2.5 %."""
    rows = []
    for _ in range(n_draws):
        model = draw(rng)
        folds = acv.folds.contiguous(model.n_sites, percent=2.5, n_folds=20, rng=rng)
        rows.append(theta_table(acv.ladder(acv.fit(model), folds)).median())
    return pd.DataFrame(rows).rename_axis("draw")
