"""The table that compares methods."""

import numpy as np
import pytest
from ladder_cases import FOLDS, RIDGE
from numpy.testing import assert_allclose

import acvlib as acv


def test_compare_reports_loss_and_parameter_errors(fits):
    exact, base = (method(RIDGE, fits["ridge"], FOLDS) for method in (acv.exact, acv.no_adjustment))
    table = acv.compare(exact, base)
    gap = fits["ridge"].standard_errors_between(base.params, exact.params)
    assert list(table.index) == ["exact", "no_adjustment"]
    assert table.loc["exact", ["relative_error", "theta_error", "theta_error_max"]].tolist() == [
        0.0,
        0.0,
        0.0,
    ]
    relative = np.abs(base.fold_losses - exact.fold_losses) / exact.fold_losses
    assert_allclose(table.loc["no_adjustment", "relative_error"], relative.mean(), rtol=1e-14)
    assert_allclose(table.loc["no_adjustment", "theta_error"], np.median(gap), rtol=1e-14)
    assert_allclose(table.loc["no_adjustment", "theta_error_max"], gap.max(), rtol=1e-14)
    assert_allclose(table["loss"], [exact.loss, base.loss], rtol=1e-15)
    assert "3 heldout" in table.loc["no_adjustment", "evaluations"]


@pytest.mark.parametrize(
    "others", [FOLDS[:2], FOLDS[::-1], acv.Folds([*FOLDS[:2], np.array([59, 20, 21, 41])])]
)
def test_results_on_different_folds_are_not_compared(others, fits):
    ours, theirs = (acv.no_adjustment(RIDGE, fits["ridge"], folds) for folds in (FOLDS, others))
    with pytest.raises(
        ValueError, match="no_adjustment and no_adjustment were run on different folds"
    ):
        acv.compare(ours, theirs)
