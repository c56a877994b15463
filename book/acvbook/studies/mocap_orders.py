"""Figure 6 of Ghosh et al. (2020): which emission describes a new recording best,
by exact and approximate CV.
"""

import time
from typing import NamedTuple

import numpy as np
import pandas as pd

from acvlib.compare import theta_errors
from acvlib.folds import leave_one_out
from acvlib.methods.ladder import ladder

from .mocap_fits import Fitted


class Orders(NamedTuple):
    """One model's results: all rungs by name, and the losses of the test sequences (n_test,)."""

    fitted: Fitted
    rungs: dict
    test: np.ndarray


def leave_one_sequence_out(one, test, numbers=None):
    """All rungs of a `Fitted` with each sequence left out once, or only those of these numbers,
    and the losses of `test` sequences, as `Orders`.
    """
    folds = leave_one_out(one.model.n_sites)
    rungs = ladder(one.fit, folds if numbers is None else folds[numbers])
    return Orders(one, rungs, one.model.sequence_losses(one.fit.params, test))


def losses(studied):
    """Mean loss of a sequence by rung and on test data, and standard errors:
    columns (model, se_model), rows models.
    """
    rows = {}
    for name, result in studied.items():
        row = {rung: cv.loss for rung, cv in result.rungs.items()} | {"test": result.test.mean()}
        errors = {f"se_{rung}": cv.se for rung, cv in result.rungs.items()}
        rows[name] = row | errors | {"se_test": result.test.std(ddof=1) / np.sqrt(len(result.test))}
    return pd.DataFrame(rows).T.rename_axis("model")


def means(table):
    """The means alone of `losses`: rows rungs and test, columns models."""
    return table[[column for column in table if not column.startswith("se_")]].astype(float).T


def errors(studied):
    """A row for each model and rung: how far its losses and parameters are from the exact
    refits'.
    """
    rows = [
        _errors(name, cv, result)
        for name, result in studied.items()
        for cv in result.rungs.values()
    ]
    return pd.DataFrame(rows).set_index(["model", "rung"])


def _errors(name, cv, result):
    exact = result.rungs["exact"]
    gap, theta = cv.fold_losses - exact.fold_losses, theta_errors(exact, cv)
    return {
        "model": name,
        "rung": cv.method,
        "bias": gap.mean(),
        "mean_error": abs(gap).mean(),
        "median_error": np.median(abs(gap)),
        "correlation": np.corrcoef(cv.fold_losses, exact.fold_losses)[0, 1],
        "theta": np.median(theta),
        "theta_max": theta.max(),
        "indefinite": _marked(cv),
    }


def _marked(cv):
    """How many folds a Newton step marks as indefinite; 0 by the other rungs."""
    return int(cv.indefinite.sum()) if cv.method == "newton_step" else 0


MOVES = (0.0, 5.0, 10.0, 20.0, np.inf)  # standard errors between which folds are counted together


def errors_by_move(result):
    """Median parameter errors of the folds whose exact refit moves so far,
    in standard errors: a row a range.
    """
    exact = result.rungs["exact"]
    moves = exact.fit.standard_errors_between(exact.params, exact.fit.params)
    columns = {
        name: theta_errors(exact, cv) for name, cv in result.rungs.items() if name != "exact"
    }
    groups = pd.DataFrame(columns).groupby(pd.cut(moves, MOVES), observed=True)
    return groups.median().assign(folds=groups.size()).rename_axis("refit moves by")


def costs(studied, repeats=3):
    """D, seconds of the fit, of one log p with gradient and of each rung,
    and the rungs in such gradients.
    """
    rows = {name: _costs(result, repeats) for name, result in studied.items()}
    return pd.DataFrame(rows).T.rename_axis("model")


def _costs(result, repeats):
    model, params = result.fitted.model, result.fitted.fit.params
    gradient = gradient_seconds(model, params, repeats)
    seconds = {name: cv.seconds for name, cv in result.rungs.items()}
    return {"D": model.n_params, "fit": result.fitted.seconds, "gradient": gradient} | seconds


def gradient_seconds(model, params, repeats=3):
    """Median seconds of one log p with gradient."""
    ones = np.ones(model.n_sites)
    return median_seconds(lambda: model.derivatives.value_and_gradient(params, ones), repeats)


def median_seconds(function, repeats):
    """Median wall clock of repeated calls."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def unconverged(studied):
    """How many exact folds of all models did not converge."""
    return sum(
        int((~result.rungs["exact"].diagnostics["converged"]).sum()) for result in studied.values()
    )


def one_choice(table, rung="infinitesimal_jackknife"):
    """Whether a rung, exact refits and the test data prefer the same model of `losses`."""
    best = winners(table)
    return len({best[column] for column in (rung, "exact", "test")}) == 1


def key(name):
    """A model's name as part of a claim's id."""
    return name.lower().replace("(", "").replace(")", "")


def winners(table):
    """The model of least loss by each column of `losses` that is a rung or the test."""
    return means(table).idxmin(axis=1).to_dict()
