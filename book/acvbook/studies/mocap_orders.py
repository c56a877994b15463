"""Figure 6 of Ghosh et al. (2020): which emission describes a new recording best; then again, for
other splits and starts of EM, and the readings of what the paper leaves open.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.folds import leave_one_out
from acvlib.methods.ladder import ladder

from .ladders import against_exact, seconds
from .mocap_fits import Fitted, emissions, fit_all, known_variance, split

READ = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.exact)  # what a reading is read by


class Orders(NamedTuple):
    """One model's results: all rungs by name, and the losses of the test sequences (n_test,)."""

    fitted: Fitted
    rungs: dict
    test: np.ndarray


def leave_one_sequence_out(one, test, numbers=None, methods=()):
    """All rungs, or these methods, of a `Fitted` with each sequence left out once, or only those
    of these numbers, and the losses of `test` sequences, as `Orders`.
    """
    folds = leave_one_out(one.model.n_sites)
    folds = folds if numbers is None else folds[numbers]
    rungs = {m.__name__: m(one.fit, folds) for m in methods} or ladder(one.fit, folds)
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


REFERENCE = "AR(1)"


class Reading(NamedTuple):
    """One way to read the paper's experiment; variance: `None` if it is estimated."""

    variance: float | None
    rate: int
    n_states: int
    fit: str
    split: int


EM, SEARCH = "EM, best of several", "one search"
READINGS = (
    *(Reading(1.0, rate, 16, EM, 1) for rate in (30, 10)),
    Reading(1.0, 10, 16, EM, 2),
    *(Reading(1.0, rate, 16, SEARCH, 1) for rate in (30, 10)),
    *(Reading(1.0, rate, 8, EM, 1) for rate in (30, 10)),
    *(Reading(None, rate, n_states, EM, 1) for n_states in (16, 8) for rate in (30, 10)),
)


def drawn(data, chosen, rng, n_train, n_states, n_folds, n_restarts, methods=(), **settings):
    """A random split, the fits of these emissions, and every rung, or these methods, on `n_folds`
    of the folds, drawn at random: a `summary`. settings: of `fit_all`.
    """
    train, test = split(data, n_train, rng)
    fitted = fit_all(train.sequences, n_states, chosen, rng, n_restarts, **settings)
    some = np.sort(rng.permutation(n_train)[:n_folds])
    about = test.sequences, some, methods
    return summary({name: leave_one_sequence_out(one, *about) for name, one in fitted.items()})


def draws(data, chosen, n_draws, seed, **sizes):
    """`drawn` from a generator for each draw, one below another."""
    tables = {
        draw: drawn(data, chosen, np.random.default_rng([seed, draw]), **sizes)
        for draw in range(1, n_draws + 1)
    }
    return pd.concat(tables, names=["draw"])


def readings(every, data, orders, seed, drawn_by_reading, **sizes):
    """A row for each `Reading`: what it is, and the model of least loss by each rung and on test
    data; and how far an AR(1) refit and its approximations are apart.

    drawn_by_reading: `draws` of the same orders, seed and sizes, by their `Reading` of split 1.
    """
    rows = []
    for reading in every:
        known = drawn_by_reading.get(reading._replace(split=1))
        if known is None:
            chosen = emissions(orders, ())
            if reading.variance is not None:
                chosen = known_variance(chosen, reading.variance)
            rng = np.random.default_rng([seed, reading.split])
            settings = sizes | {"n_states": reading.n_states, "once": reading.fit == SEARCH}
            table = drawn(data[reading.rate], chosen, rng, methods=READ, **settings)
        else:
            table = known.loc[reading.split]
        theta = table.theta.xs(REFERENCE)[["no_adjustment", "infinitesimal_jackknife"]]
        best = winners_of(pd.concat({1: table}, names=["draw"])).loc[1]
        rows.append(reading._asdict() | best.to_dict() | theta.add_prefix("theta ").to_dict())
    return pd.DataFrame(rows)


def summary(studied):
    """A row for each model and rung, and one for the test sequences of each model.

    loss: the mean over folds; over_ar1: its difference from AR(1)'s in paired standard errors; gap:
    its distance from exact in standard errors of a mean over all folds; track: that from the test
    sequences, in standard errors of both; theta: median parameter
    error; share: that over the error of no adjustment; differences: the correlation with exact of
    what the rung adds to no adjustment; beats_none, beats_ij: in how many folds, as a share, its
    parameters are nearer to exact.
    """
    tables = {}
    for name, result in studied.items():
        reference = studied[REFERENCE]
        table = against_exact(result.rungs, lambda cv: cv.fold_losses)
        exact, loss = result.rungs["exact"], table.loss["exact"]
        of_mean = exact.fold_losses.std(ddof=1) / np.sqrt(exact.n_sites)
        over = {
            rung: _margin(cv.fold_losses, reference.rungs[rung].fold_losses)
            for rung, cv in result.rungs.items()
        }
        table = table.assign(over_ar1=pd.Series(over), gap=abs(table.loss - loss) / of_mean)
        table = table.fillna({"differences": 0.0})
        pair = exact.fold_losses, result.test
        both = np.hypot(*(losses.std(ddof=1) / np.sqrt(len(losses)) for losses in pair))
        table["track"] = abs(table.loss - result.test.mean()) / both
        test = {"loss": result.test.mean(), "over_ar1": _margin(result.test, reference.test)}
        tables[name] = pd.concat([table, pd.DataFrame(test, pd.Index(["test"], name="rung"))])
    return pd.concat(tables, names=["model"])


def _margin(losses, reference):
    """Mean difference of paired losses in its standard errors; 0 of the reference itself."""
    difference = losses - reference
    spread = difference.std(ddof=1)
    return difference.mean() / spread * np.sqrt(len(losses)) if spread else 0.0


def winners_of(table):
    """The model of least loss by each rung and on test data: a row for each of the `draws`."""
    return table.loss.astype(float).unstack("model").idxmin(axis=1).unstack("rung")
