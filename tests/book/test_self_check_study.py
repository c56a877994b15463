"""The study of the chapter on which folds to trust."""

import pandas as pd
from acvbook.studies import self_check


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
