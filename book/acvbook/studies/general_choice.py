"""Table 2 of Zhu and Liu (2021): gamma_P and gamma_I chosen by exact 20-fold CV,
and by each approximation.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from acvlib.fit import fit
from acvlib.folds import k_fold
from acvlib.methods.exact import exact

from .general import RUNGS

GAMMAS = tuple(10.0**power for power in range(-3, 4))


def grid(model, rng, gammas=GAMMAS, n_folds=20):
    """Mean held-out loss by exact CV and by each rung,
    one row for each (gamma_p, gamma_i); gamma_s = 1.

    The sums over pairs are shared by all rows. unconverged: how many exact folds did not converge.
    """
    folds = k_fold(model.n_sites, n_folds, rng, model.observed)
    rows = [_row(replace(model, gamma_p=p, gamma_i=i), folds) for p in gammas for i in gammas]
    return pd.DataFrame(rows).set_index(["gamma_p", "gamma_i"])


def _row(model, folds):
    full = fit(model)
    results = {method.__name__: method(model, full, folds) for method in (exact, *RUNGS)}
    losses = {name: np.concatenate(result.losses).mean() for name, result in results.items()}
    unconverged = int((~results["exact"].diagnostics["converged"]).sum())
    return (
        {"gamma_p": model.gamma_p, "gamma_i": model.gamma_i} | losses | {"unconverged": unconverged}
    )


def chosen(table):
    """The choice of each criterion: gamma_p, gamma_i,
    and by how much its exact loss exceeds the least, relatively.

    same: whether it is the choice of exact CV.
    """
    least, first = table.exact.min(), table.exact.idxmin()
    rows = {}
    for name in table.columns.drop("unconverged"):
        best = table[name].idxmin()
        rows[name] = {
            "gamma_p": best[0],
            "gamma_i": best[1],
            "regret": table.exact[best] / least - 1.0,
        }
        rows[name]["same"] = best == first
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("criterion")
