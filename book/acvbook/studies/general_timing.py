"""Table 1 of Zhu and Liu (2021): seconds of t-fold CV fold by fold, and approximated."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd

from acvlib.fit import fit
from acvlib.folds import k_fold
from acvlib.methods.exact import exact
from acvlib.methods.ladder import infinitesimal_jackknife
from acvlib.models import GraphAffinity, ManifoldEnergy, RBFAffinity

from .ladders import timed

CALLS, PATIENCE = 20, 3.0  # calls of each way; no more calls or folds after so many seconds,
LEAST, REPEATS = 2, 3  # but this many folds, as one may take twice as long as the next, and calls
TOLERANCE = 1e-8  # of the fits that the others are measured against, in standard errors


def table1(model, rng, numbers=(5, 10, 20), calls=CALLS, patience=PATIENCE):
    """Seconds from the data to the mean held-out loss, one row for each t and call.

    cv: a model of the kept points alone for every fold, as the paper runs it; acv: one fit and the
    jackknife; shared: exact refits whose sums over pairs come from those of the full fit. Each
    starts without any sum over pairs; a neighbour graph is taken as given. The three take turns, so
    that what else the machine does meets all of them. ratio: cv / acv; fits: how many folds cv was
    timed on before the patience ended, from which its seconds are those of all; gap: relative
    difference of the mean losses of cv and shared on these.
    """
    tables = {}
    for t in numbers:
        folds = k_fold(model.n_sites, t, rng, model.observed)
        rows, start = [], time.perf_counter()
        while len(rows) < min(calls, REPEATS) or (
            len(rows) < calls and time.perf_counter() - start < patience
        ):
            rows.append(_row(model, folds, patience))
        tables[t] = pd.DataFrame(rows)
    return pd.concat(tables, names=["folds", "call"])


def _row(model, folds, patience):
    cv, built = fold_by_fold(model, folds, patience)
    _, acv = timed(lambda: approximate(model, folds))
    losses, shared_seconds = timed(lambda: shared(model, folds))
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


def approximate(model, folds):
    """Held-out losses by the jackknife, the fit included."""
    model = forgetful(model)
    return infinitesimal_jackknife(fit(model), folds).losses


def shared(model, folds):
    """Held-out losses of exact refits that share their sums over pairs, the fit included."""
    model = forgetful(model)
    return exact(fit(model), folds).losses


def forgetful(model):
    """The same model, which has to sum over pairs again."""
    return replace(model, energy=ManifoldEnergy(model.energy.features, model.energy.affinity))
