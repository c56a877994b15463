"""Tables 1 and 2 of Zhu and Liu (2021): seconds of t-fold CV; choices of gamma_P and gamma_I."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.fit import fit
from acvlib.folds import k_fold
from acvlib.methods.exact import exact
from acvlib.methods.ladder import infinitesimal_jackknife
from acvlib.models import GraphAffinity, ManifoldEnergy, RBFAffinity

from .general import LABELLED, on_folds, points_and_response, relabelled
from .ladders import timed

PATIENCE, LEAST = 3.0, 2  # of CV: no more folds after so many seconds, but two
TOLERANCE = 1e-8  # of the fits that the others are measured against, in standard errors


def table1(model, rng, calls, patience=PATIENCE):
    """Seconds from the data to the mean held-out loss, one row for each t and call.

    calls: how many of each t. cv: a model of the kept points for every fold, as the paper runs it;
    acv: one fit and the jackknife; shared: exact refits whose sums over pairs come from those of
    the full fit. Each starts without any sum over pairs; a neighbour graph is taken as given. The
    three take turns. ratio: cv / acv; fits: how many folds cv was timed on until the patience
    ended; gap: relative difference of the mean losses of cv and shared on these.
    """
    tables = {}
    for t, n_calls in calls.items():
        folds = k_fold(model.n_sites, t, rng, model.observed)
        tables[t] = pd.DataFrame([_row(model, folds, patience) for _ in range(n_calls)])
    return pd.concat(tables, names=["folds", "call"])


def _row(model, folds, patience):
    cv, built = fold_by_fold(model, folds, patience)
    _, acv = timed(lambda: by(infinitesimal_jackknife, model, folds))
    losses, shared_seconds = timed(lambda: by(exact, model, folds))
    pair = [np.concatenate(each[: len(built)]).mean() for each in (built, losses)]
    seconds = {"cv": cv * len(folds) / len(built), "acv": acv, "shared": shared_seconds}
    gap = abs(pair[0] / pair[1] - 1.0)
    return seconds | {"ratio": seconds["cv"] / acv, "fits": len(built), "gap": gap}


def medians(table):
    """Of `table1`, one row for each t; calls: how many."""
    grouped = table.groupby("folds")
    return grouped.median().assign(calls=grouped.size())


def without(model, fold):
    """The model of all points but the fold's, made anew."""
    kept = np.setdiff1d(np.arange(model.n_sites), fold)
    alike = model.energy.affinity
    if isinstance(alike, GraphAffinity):
        alike = GraphAffinity(alike.matrix[kept][:, kept])
    else:
        alike = RBFAffinity(alike.points[kept], alike.sigma)
    energy = ManifoldEnergy(model.energy.features[kept], alike)
    return replace(model, energy=energy, y=model.y[kept])


def fold_by_fold(model, folds, patience=np.inf):
    """(seconds, losses of each fold) of t-fold CV, each fold's model built and fitted from nothing,
    until the patience ends, the first two at least.
    """
    start, losses = time.perf_counter(), []
    for fold in folds:
        full = fit(without(model, fold), tolerance=TOLERANCE)
        losses.append(model.heldout_loss(full.params, fold))
        if len(losses) >= LEAST and time.perf_counter() - start > patience:
            break
    return time.perf_counter() - start, losses


def by(method, model, folds):
    """Held-out losses by a method, the fit and all sums over pairs included."""
    return method(fit(forgetful(model)), folds).losses


def forgetful(model):
    """The same model, which has to sum over pairs again."""
    return replace(model, energy=ManifoldEnergy(model.energy.features, model.energy.affinity))


GAMMAS = tuple(10.0**power for power in range(-3, 4))  # the paper's
WIDER = tuple(10.0**power for power in range(-6, 4))  # so that choices lie inside
CRITERIA = (acv.no_adjustment, acv.as_printed, acv.infinitesimal_jackknife)


def grid(model, rng, gammas=GAMMAS, n_folds=20):
    """Mean held-out loss by exact CV and by each criterion, one row for each (gamma_p, gamma_i),
    and exact CV's losses of the folds, alike; gamma_s = 1. Sums over pairs are shared by all rows.
    """
    folds = k_fold(model.n_sites, n_folds, rng, model.observed)
    rows, by_fold = {}, {}
    for pair in [(p, i) for p in gammas for i in gammas]:
        one = replace(model, gamma_p=pair[0], gamma_i=pair[1])
        results = on_folds(one, folds, CRITERIA)
        rows[pair] = {name: np.concatenate(r.losses).mean() for name, r in results.items()}
        by_fold[pair] = results["exact"].fold_losses
    names = ["gamma_p", "gamma_i"]
    return (pd.DataFrame(table).T.rename_axis(names) for table in (rows, by_fold))


def over_draws(model, data, rng, n_draws, gammas=GAMMAS, labelled=LABELLED):
    """`chosen` for each of many draws of labels and folds; index: draw, criterion."""
    _, y = points_and_response(data)
    draws = [relabelled(model, y, rng, labelled) for _ in range(n_draws)]
    tables = {number: chosen(*grid(one, rng, gammas)) for number, one in enumerate(draws)}
    return pd.concat(tables, names=["draw"])


def summary(table):
    """Of `over_draws`, a row a criterion: medians; same: the share of draws with exact's choice."""
    grouped = table.groupby("criterion", sort=False)
    return grouped[["gamma_p", "gamma_i", "regret", "in_se"]].median().join(grouped.same.mean())


def chosen(table, by_fold):
    """The choice of each criterion of a `grid`: gamma_p, gamma_i; same: whether it is exact CV's.

    regret: by how much its exact loss exceeds the least, relatively; in_se: in standard errors of
    this difference, paired over folds.
    """
    first, rows = table.exact.idxmin(), {}
    for name in table:
        best = table[name].idxmin()
        excess = table.exact[best] - table.exact[first]
        gap = by_fold.loc[best] - by_fold.loc[first]
        error = gap.std() / np.sqrt(len(gap))
        rows[name] = {
            "gamma_p": best[0],
            "gamma_i": best[1],
            "regret": excess / table.exact[first],
            "in_se": excess / error if excess else 0.0,
            "same": float(best == first),
        }
    return pd.DataFrame(rows).T.rename_axis("criterion")
