"""The study of the chapter on which folds to trust."""

import numpy as np
import pandas as pd
from acvbook.studies import self_check
from numpy.testing import assert_allclose

import acvlib as acv


def test_overall_leaves_out_the_baseline_and_exact_itself():
    table = pd.DataFrame(
        {
            "method": ["frozen_newton"] * 4 + ["exact", "no_adjustment"],
            "theta_error": [1.0, 1.0, 0.0, 0.0, 9.0, 9.0],
            "loss_error": 0.0,
            "unreliable": [True, False, True, False, False, False],
            "gradients": 0.5,
        }
    )
    rates = self_check.overall(table)
    assert rates.folds == 4
    assert rates[["recall", "precision", "share_far", "gradients"]].tolist() == [0.5] * 4


def test_time_splits_are_mended_by_the_check():
    scores = self_check.time_splits(np.random.default_rng(0))
    gaps = (scores - scores.loc["scikit-learn"]).abs().max(axis=1)
    assert gaps["refit"] < gaps["ignore"]
    assert_allclose(gaps["refit"], 0.0, atol=0.05)


def test_some_folds_are_distinct_folds():
    folds = acv.folds.leave_one_out(20)
    some = self_check._some(folds, 5, np.random.default_rng(0))
    assert len(some) == len({tuple(fold) for fold in some}) == 5
