"""Figure 6 of Ghosh et al. (2020): which emission describes a new recording best, by exact and approximate CV."""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..compare import theta_errors
from ..fit import fit, fit_path
from ..folds import leave_one_out
from ..ladder import ladder
from ..models import HMM, hmm_em
from ..models.emissions import AutoRegression, NeuralAutoRegression
from ..protocol import Fit

CONTEXT = 5  # frames that every order looks back at, so that all predict the same ones


class Fitted(NamedTuple):
    """A model whose initial, transitions and sigma are held at `whole`, the MAP of everything, and its fit."""

    name: str
    model: HMM
    fit: Fit
    whole: np.ndarray
    seconds: float


class Orders(NamedTuple):
    """One model's results: all rungs by name, and the losses of the test sequences (n_test,)."""

    fitted: Fitted
    rungs: dict
    test: np.ndarray


def emissions(orders=(0, 1, 2, 3, 4, 5), neural=(1,)):
    """The paper's emissions by name."""
    by_name = {f"AR({p})": AutoRegression(p) for p in orders}
    return by_name | {f"NAR({p})": NeuralAutoRegression(p) for p in neural}


def split(data, n_train, rng):
    """(train, test) of a `Mocap`, drawn at random; both scaled by the training sequences."""
    order = rng.permutation(len(data))
    train, test = data.take(order[:n_train]), data.take(order[n_train:])
    return train.scaled(), test.scaled(train)


def fitted(name, sequences, n_states, emission, rng, n_restarts, labels=None, context=CONTEXT, sites="sequences"):
    """MAP of all parameters from the best of several starts, then of those of the states alone, as `Fitted`.

    labels (M,): states of the frames under another model, one more start. EM where it has an M-step, else L-BFGS.
    """
    started = time.perf_counter()
    model = HMM(sequences, n_states, emission, sites, context=context)
    climb = _by_em if hasattr(emission, "maximise") else _by_gradient
    whole = climb(model, rng, n_restarts, labels)
    held, start = model.hold(whole)
    return Fitted(name, held, fit(held, start), whole, time.perf_counter() - started)


def _by_em(model, rng, n_restarts, labels):
    runs = [hmm_em.restarts(model, rng, n_restarts, max_iterations=150, tolerance=1e-6)]
    if labels is not None:
        runs.append(hmm_em.expectation_maximisation(model, model.params_of_labels(labels)))
    best = min(runs, key=lambda run: run.objectives[-1])
    return hmm_em.expectation_maximisation(model, best.params).params


def _by_gradient(model, rng, n_restarts, labels):
    starts = [model.initial_params(rng) for _ in range(n_restarts if labels is None else max(n_restarts // 2, 1))]
    if labels is not None:
        starts.append(model.params_of_labels(labels))
    ends = [fit_path(model, start)[-1] for start in starts]
    return min(ends, key=lambda params: model.fast.value_and_gradient(params, np.ones(model.n_sites))[0])


def states(one):
    """The likeliest state of each frame under a `Fitted`, (M,)."""
    return one.model.fast.posterior(one.fit.params, np.ones(one.model.n_sites)).smoothed.gamma.argmax(axis=1)


def states_of(one, n):
    """The likeliest state of each frame of sequence n under a `Fitted`, the frames only looked back at left out."""
    return states(one)[one.model.pieces()[n]]


def fit_all(sequences, n_states, chosen, rng, n_restarts, context=CONTEXT):
    """A `Fitted` for each emission by name; AR(1)'s states are one more start of those that follow it."""
    labels, found = None, {}
    for name, emission in chosen.items():
        found[name] = fitted(name, sequences, n_states, emission, rng, n_restarts, labels, context)
        labels = states(found[name]) if name == "AR(1)" else labels
    return found


def leave_one_sequence_out(one, test):
    """All rungs of a `Fitted` with each sequence left out once, and the losses of `test` sequences, as `Orders`."""
    rungs = ladder(one.model, one.fit, leave_one_out(one.model.n_sites))
    return Orders(one, rungs, one.model.sequence_losses(one.fit.params, test))


def losses(studied):
    """Mean loss of a sequence by rung and on test data, and standard errors: columns (model, se_model), rows models."""
    rows = {}
    for name, result in studied.items():
        row = {rung: cv.loss for rung, cv in result.rungs.items()} | {"test": result.test.mean()}
        errors = {f"se_{rung}": cv.se for rung, cv in result.rungs.items()}
        rows[name] = row | errors | {"se_test": result.test.std(ddof=1) / np.sqrt(len(result.test))}
    return pd.DataFrame(rows).T.rename_axis("model")


def errors(studied):
    """A row for each model and rung: how far its losses and parameters are from the exact refits'."""
    rows = [_errors(name, cv, result) for name, result in studied.items() for cv in result.rungs.values()]
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
    return int((cv.diagnostics["smallest_eigenvalue"] <= 0.0).sum()) if cv.method == "newton_step" else 0


MOVES = (0.0, 5.0, 10.0, 20.0, np.inf)  # standard errors between which folds are counted together


def errors_by_move(result):
    """Median parameter errors of the folds whose exact refit moves so far, in standard errors: a row a range."""
    exact = result.rungs["exact"]
    moves = exact.fit.standard_errors_between(exact.params, exact.fit.params)
    columns = {name: theta_errors(exact, cv) for name, cv in result.rungs.items() if name != "exact"}
    groups = pd.DataFrame(columns).groupby(pd.cut(moves, MOVES), observed=True)
    return groups.median().assign(folds=groups.size()).rename_axis("refit moves by")


def costs(studied, repeats=3):
    """D, seconds of the fit, of one log p with gradient and of each rung, and the rungs in such gradients."""
    rows = {name: _costs(result, repeats) for name, result in studied.items()}
    return pd.DataFrame(rows).T.rename_axis("model")


def _costs(result, repeats):
    model, params = result.fitted.model, result.fitted.fit.params
    gradient = gradient_seconds(model, params, repeats)
    seconds = {name: cv.seconds for name, cv in result.rungs.items()}
    return {"D": model.n_params, "fit": result.fitted.seconds, "gradient": gradient} | seconds


def gradient_seconds(model, params, repeats=3):
    """Median seconds of one log p with gradient."""
    ones, times = np.ones(model.n_sites), []
    for _ in range(repeats):
        started = time.perf_counter()
        model.fast.value_and_gradient(params, ones)
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def choices(sequences, test, emission, n_states, rng, n_restarts, context=CONTEXT):
    """The losses of one emission at several numbers of states, as `losses`, indexed by K."""
    studied = {}
    for k in n_states:
        one = fitted(f"K = {k}", sequences, k, emission, rng, n_restarts, context=context)
        studied[k] = leave_one_sequence_out(one, test)
    return losses(studied).rename_axis("K")


def everything_free(one, studied, test):
    """A model with initial, transitions and sigma among its parameters too: mean losses and errors, two rows."""
    whole = one.model.whole(one.fit.params)
    model = replace(one.model, held=None)
    free = leave_one_sequence_out(Fitted("all free", model, fit(model, whole), whole, np.nan), test.sequences)
    return pd.DataFrame({"as above": _check(studied), "everything free": _check(free)}).T


def _check(result):
    row = {"D": result.fitted.model.n_params} | {name: cv.loss for name, cv in result.rungs.items()}
    table = errors({"": result}).loc[""]
    theta = {f"theta, {name}": table.theta[name] for name in ("infinitesimal_jackknife", "newton_step")}
    return row | {"test": result.test.mean()} | theta


def gap_in_standard_errors(result):
    """|loss of the IJ - loss of exact| in the standard errors of the latter."""
    exact = result.rungs["exact"]
    return abs(result.rungs["infinitesimal_jackknife"].loss - exact.loss) / exact.se


def error_ratio(result):
    """Median parameter error over folds of the Newton step, over that of the IJ."""
    table = errors({"": result}).loc[""].theta
    return table["newton_step"] / table["infinitesimal_jackknife"]


def key(name):
    """A model's name as part of a claim's id."""
    return name.lower().replace("(", "").replace(")", "")


def winners(table):
    """The model of least loss by each column of `losses` that is a rung or the test."""
    return {column: table[column].astype(float).idxmin() for column in table if not column.startswith("se_")}
