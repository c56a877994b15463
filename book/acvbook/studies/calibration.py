"""How honest the error bar of a few exact folds is, against all exact refits."""

import numpy as np
import pandas as pd
from scipy.stats import t

import acvlib as acv


def estimates(exact, result, n_exact, n_draws, rng, level=0.95):
    """`acv.difference_estimate` from n_draws random sets of n_exact folds, one row a draw.

    All refits are known from `exact`, so that a draw costs nothing. half: t se, half the interval,
    Student's t with n_exact - 1 degrees of freedom; covers: whether the exact loss lies within;
    se_alone: the standard error of the mean of the same exact folds without the result.
    """
    acv.theta_errors(exact, result)  # refuses results of different folds
    n = len(exact.folds)
    scored = len(np.concatenate(exact.folds.scored)) / n
    totals = exact.fold_totals / scored
    gaps = totals - result.fold_totals / scored
    shrink = np.sqrt((1 - n_exact / n) / n_exact)
    drawn = np.array([rng.choice(n, n_exact, replace=False) for _ in range(n_draws)])
    table = pd.DataFrame(
        {
            "estimate": result.loss + gaps[drawn].mean(1),
            "se": shrink * gaps[drawn].std(1, ddof=1),
            "se_alone": shrink * totals[drawn].std(1, ddof=1),
        }
    )
    table["half"] = t.ppf(0.5 + level / 2, n_exact - 1) * table.se
    return table.assign(covers=(table.estimate - exact.loss).abs() <= table.half)
