"""Table 2 of Zhu and Liu (2021): gamma_P and gamma_I chosen by exact and approximate CV."""

from dataclasses import replace

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.folds import k_fold

from .general import LABELLED, on_folds, points_and_response, relabelled

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
    """Of `over_draws`, one row a criterion: medians, and the shares of draws with the choice of
    exact CV.
    """
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
