"""Figure 6 of Ghosh et al. (2020): which emission describes a new recording best."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from acvlib.folds import leave_one_out
from acvlib.methods.ladder import ladder

from .ladders import seconds
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
    """Mean loss of a sequence by rung and on test data, and its standard error, by model."""
    rows = {}
    for name, result in studied.items():
        row = {rung: cv.loss for rung, cv in result.rungs.items()} | {"test": result.test.mean()}
        errors = {f"se_{rung}": cv.se for rung, cv in result.rungs.items()}
        rows[name] = row | errors | {"se_test": result.test.std(ddof=1) / np.sqrt(len(result.test))}
    return pd.DataFrame(rows).T.rename_axis("model")


def means(table):
    """The means alone of `losses`: rows rungs and test, columns models."""
    return table[[column for column in table if not column.startswith("se_")]].astype(float).T


def costs(studied, repeats=3):
    """D, seconds of the fit, of one log p with gradient and of each rung."""
    rows = {}
    for name, result in studied.items():
        model, params = result.fitted.model, result.fitted.fit.params
        gradient = gradient_seconds(model, params, repeats)
        by_rung = {rung: cv.seconds for rung, cv in result.rungs.items()}
        rows[name] = {"D": model.n_params, "fit": result.fitted.seconds, "gradient": gradient}
        rows[name] |= by_rung
    return pd.DataFrame(rows).T.rename_axis("model")


def gradient_seconds(model, params, repeats=3):
    """Median seconds of one log p with gradient."""
    ones = np.ones(model.n_sites)
    calls = seconds(lambda: model.derivatives.value_and_gradient(params, ones), repeats)
    return float(np.median(calls))


def unconverged(studied):
    """How many exact folds of all models did not converge."""
    return sum(
        int((~result.rungs["exact"].diagnostics["converged"]).sum()) for result in studied.values()
    )


def key(name):
    """A model's name as part of a claim's id."""
    return name.lower().replace("(", "").replace(")", "")


def minutes(studied):
    """Minutes that the fits and all their rungs took."""
    results = studied.values()
    rungs = sum(cv.seconds for result in results for cv in result.rungs.values())
    return (rungs + sum(result.fitted.seconds for result in results)) / 60.0
