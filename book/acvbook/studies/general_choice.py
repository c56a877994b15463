"""Table 2 of Zhu and Liu (2021): gamma_P and gamma_I chosen by exact and approximate CV."""

from dataclasses import replace

import numpy as np
import pandas as pd

from acvlib.folds import k_fold

from .general import LABELLED, on_folds, points_and_response, relabelled

GAMMAS = tuple(10.0**power for power in range(-3, 4))  # the paper's
WIDER = tuple(10.0**power for power in range(-6, 4))  # so that choices lie inside


def grid(model, rng, gammas=WIDER, n_folds=20):
    """Mean held-out loss by exact CV and by each rung,
    one row for each (gamma_p, gamma_i); gamma_s = 1.

    The sums over pairs are shared by all rows. unconverged: how many exact folds did not converge.
    """
    folds = k_fold(model.n_sites, n_folds, rng, model.observed)
    rows = [_row(replace(model, gamma_p=p, gamma_i=i), folds) for p in gammas for i in gammas]
    return pd.DataFrame(rows).set_index(["gamma_p", "gamma_i"])


def _row(model, folds):
    results = on_folds(model, folds)
    losses = {name: np.concatenate(result.losses).mean() for name, result in results.items()}
    unconverged = int((~results["exact"].diagnostics["converged"]).sum())
    return (
        {"gamma_p": model.gamma_p, "gamma_i": model.gamma_i} | losses | {"unconverged": unconverged}
    )


def over_draws(model, data, rng, n_draws, gammas=WIDER, labelled=LABELLED):
    """A `grid` for each of many draws of labels and folds; index: draw, gamma_p, gamma_i."""
    _, y = points_and_response(data)
    grids = [grid(relabelled(model, y, rng, labelled), rng, gammas) for _ in range(n_draws)]
    return pd.concat(dict(enumerate(grids)), names=["draw"])


def within(grids, gammas):
    """The part of `over_draws` whose gammas are among these."""
    chosen_p, chosen_i = (
        np.isin(np.log10(grids.index.get_level_values(name)).round(6), np.log10(gammas).round(6))
        for name in ("gamma_p", "gamma_i")
    )
    rows = grids[chosen_p & chosen_i]
    return rows.set_axis(rows.index.remove_unused_levels())


def choices(grids):
    """`chosen` of each draw of `over_draws`; index: draw, criterion."""
    return pd.concat(
        {draw: chosen(one.droplevel("draw")) for draw, one in grids.groupby("draw")}, names=["draw"]
    )


def summary(table):
    """Of `choices`, one row a criterion: medians, and the shares of draws with the choice of exact
    CV and with one inside the grid.
    """
    grouped = table.groupby("criterion", sort=False)
    middle = grouped[["gamma_p", "gamma_i", "regret"]].median()
    return middle.join(grouped[["same", "inside"]].mean())


def chosen(table):
    """The choice of each criterion: gamma_p, gamma_i,
    and by how much its exact loss exceeds the least, relatively.

    same: whether it is the choice of exact CV; inside: whether it is at no edge of the grid.
    """
    least, first = table.exact.min(), table.exact.idxmin()
    levels = table.index.remove_unused_levels().levels
    edges = [(level.min(), level.max()) for level in levels]
    rows = {}
    for name in table.columns.drop("unconverged"):
        best = table[name].idxmin()
        rows[name] = {
            "gamma_p": best[0],
            "gamma_i": best[1],
            "regret": table.exact[best] / least - 1.0,
            "same": float(best == first),
            "inside": float(not any(g in ends for g, ends in zip(best, edges, strict=True))),
        }
    return pd.DataFrame(rows).T.rename_axis("criterion")
