"""The fits behind Figures 6 to 8 of Ghosh et al. (2020): first everything, then the states alone;
and Figures 7 and 8: frames left out at random, in blocks, at the end.
"""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from joblib import delayed

from acvlib.fit import fit, fit_path
from acvlib.folds import contiguous, iid, leave_future_out
from acvlib.methods.ladder import ladder
from acvlib.models import HMM
from acvlib.models.hmm import em
from acvlib.models.hmm.emissions import AutoRegression, NeuralAutoRegression
from acvlib.parallel import threads
from acvlib.results import Fit

from .ladders import against_exact, pointwise

CONTEXT = 5  # frames that every order looks back at, so that all predict the same ones
KNOWN = 1e7  # frames that a prior on sigma^2 is worth where it is to be known
# How often a fit without an M-step is shaken, and in how many ways each time.
N_ROUNDS, N_SHAKES = 3, 2


class Fitted(NamedTuple):
    """A model with all but its states held at `whole`, the MAP of everything, and its fit."""

    name: str
    model: HMM
    fit: Fit
    whole: np.ndarray
    seconds: float


AS_THEY_COME = {"centre": 0.0, "scale": 1.0}  # the paper's priors are in the units of its data


def emissions(orders=(0, 1, 2, 3, 4, 5), neural=(1,)):
    """The paper's emissions by name."""
    by_name = {f"AR({p})": AutoRegression(p, **AS_THEY_COME) for p in orders}
    return by_name | {f"NAR({p})": NeuralAutoRegression(p, **AS_THEY_COME) for p in neural}


def known_variance(chosen, variance):
    """The same emissions, their sigma^2 known: by a prior that data do not move."""
    prior = KNOWN, KNOWN * variance
    return {name: replace(emission, variance_prior=prior) for name, emission in chosen.items()}


def split(data, n_train, rng):
    """(train, test) of a `Mocap`, drawn at random; both scaled by the training sequences."""
    order = rng.permutation(len(data))
    train, test = data.take(order[:n_train]), data.take(order[n_train:])
    return train.scaled(), test.scaled(train)


def fitted(name, x, n_states, emission, rng, n_restarts, labels=None, once=False, **settings):
    """MAP of all parameters from the best of several starts, then of those of the states alone, as
    `Fitted`.

    labels (M,): states of the frames under another model, one more start. EM where it has an
    M-step, else L-BFGS. once: instead one search from one start, as the paper has no restarts, by
    L-BFGS and then Newton's method. settings: of the `HMM`.
    """
    started = time.perf_counter()
    about = {"sites": "sequences", "context": CONTEXT} | settings
    model = HMM(x, n_states, emission, **about)
    climb = _by_gradient if emission.maximise is None else _by_em
    start = model.initial_params(rng) if once else None
    whole = _optimum(model, start) if once else climb(model, rng, n_restarts, labels)
    held, start = model.hold(whole)
    return Fitted(name, held, fit(held, start), whole, time.perf_counter() - started)


def _by_em(model, rng, n_restarts, labels):
    starts = model.starting_points(rng, n_restarts)
    runs = [em.expectation_maximisation(model, start, 150, 1e-6) for start in starts]
    if labels is not None:
        runs.append(em.expectation_maximisation(model, model.params_of_labels(labels)))
    best = min(runs, key=lambda run: run.objectives[-1])
    return em.expectation_maximisation(model, best.params).params


def _by_gradient(model, rng, n_restarts, labels):
    starts = [
        model.initial_params(rng)
        for _ in range(n_restarts if labels is None else max(n_restarts // 2, 1))
    ]
    if labels is not None:
        starts.append(model.params_of_labels(labels))
    best = _best(model, starts)
    return _shaken(model, best, rng) if len(model.sequences) > 1 else best


def _best(model, starts):
    """The lowest of the optima that L-BFGS reaches from each start."""
    return min(threads()(delayed(_optimum)(model, start) for start in starts), key=_value(model))


def _optimum(model, start):
    return fit_path(model, start)[-1]


def _shaken(model, params, rng):
    """The best of searches that each go on without a tenth of the sequences, and then with all.

    A network for each state has many shallow optima, which a few sequences hold in place: exact
    refits without one of these would move to another optimum.
    """
    n = len(model.sequences)
    for _ in range(N_ROUNDS):
        parts = [np.sort(rng.permutation(n)[max(n // 10, 1) :]) for _ in range(N_SHAKES)]
        sequences = [[model.sequences[i] for i in kept] for kept in parts]
        some_sequences = [replace(model, sequences=x, sample_weight=1.0) for x in sequences]
        away = threads()(delayed(_optimum)(some, params) for some in some_sequences)
        params = min(params, _best(model, away), key=_value(model))
    return params


def _value(model):
    return lambda params: model.derivatives.value_and_gradient(params, np.ones(model.n_sites))[0]


def states(one):
    """The likeliest state of each frame under a `Fitted`, (M,)."""
    return one.model.posterior(one.fit.params).argmax(axis=1)


def fit_all(sequences, n_states, chosen, rng, n_restarts, **settings):
    """A `Fitted` for each emission by name; AR(1)'s states start those that follow it."""
    labels, found = None, {}
    for name, emission in chosen.items():
        about = sequences, n_states, emission, rng, n_restarts, labels
        found[name] = fitted(name, *about, **settings)
        labels = states(found[name]) if name == "AR(1)" else labels
    return found


SCHEMES = {"iid": iid, "contiguous": contiguous}
EMISSIONS = {
    "Gaussian": AutoRegression(0, **AS_THEY_COME),
    "AR(1)": AutoRegression(1, **AS_THEY_COME),
    "NAR(1)": NeuralAutoRegression(1, **AS_THEY_COME),
}


def models(sequence, n_states, rng, n_restarts, variance=1.0, names=tuple(EMISSIONS)):
    """The emissions of Figure 8 by name, initial and transitions held; all predict the same frames.

    variance: sigma^2, estimated first and then held if it is `None`.
    """
    chosen = {name: EMISSIONS[name] for name in names}
    if variance is not None:
        chosen = known_variance(chosen, variance)
    return fit_all([sequence], n_states, chosen, rng, n_restarts, context=1, sites="steps")


def within(full, settings, n_folds, rng):
    """All rungs for folds of each of the settings (scheme, percent)."""
    model = full.model
    return {
        (name, rate): ladder(full, SCHEMES[name](model.n_sites, rate, n_folds, rng, model.observed))
        for name, rate in settings
    }


def within_draws(fits, percents, n_folds, rng):
    """`within` of the Gaussian model of each fit, one of `models`, from folds drawn anew: the rungs
    of the first, and the `table` of each draw. Blocks of low rates are of the first draw alone.
    """
    every = [(name, percent) for name in SCHEMES for percent in percents]
    judged = [pair for pair in every if pair[0] == "iid" or pair[1] == max(percents)]
    drawn = [
        within(fit["Gaussian"].fit, judged if number else every, n_folds, rng)
        for number, fit in enumerate(fits)
    ]
    return drawn[0], _one_below_another(map(table, drawn))


def future_draws(fits, starts):
    """`future` of each of `models`, a `table` a draw; starts: (model, first, every) by setting."""
    drawn = (
        {setting: future(fit[name], *when) for setting, (name, *when) in starts.items()}
        for fit in fits
    )
    return _one_below_another(table(results, first_losses) for results in drawn)


def _one_below_another(tables):
    return pd.concat(dict(enumerate(tables, 1)), names=["draw"])


def future(one: Fitted, first, every=1):
    """All rungs with the frames from t on left out, t = first, first + every ... n_sites - 1."""
    starts = range(first, one.model.n_sites, every)
    return ladder(one.fit, leave_future_out(one.model.n_sites, starts, observed=one.model.observed))


def first_losses(result):
    """-log p(x_t | x before t) of the first left-out frame of each fold, (n_folds,)."""
    return np.array([losses[0] for losses in result.losses])


def table(results, losses_of=pointwise):
    """`ladders.against_exact`, a row for each setting and rung."""
    tables = {
        key if isinstance(key, str) else f"{key[0]} {key[1]} %": against_exact(rungs, losses_of)
        for key, rungs in results.items()
    }
    return pd.concat(tables, names=["setting"]).fillna({"differences": 0.0})
