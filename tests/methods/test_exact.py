"""Exact refits against closed forms and scipy; folds that need many steps or have no optimum."""

import numpy as np
import pytest
from ladder_cases import FOLDS, INSTRUMENTS, LOGISTIC, TIGHT, U, X, Y, left_out, tight_refit
from numpy.testing import assert_array_equal
from oracles.refit import refit
from oracles.toy_models import Instruments, Logistic
from sklearn.datasets import load_diabetes

import acvlib as acv
from acvlib.models import GLM
from acvlib.trials import UnconvergedFit


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("kind", ["objective", "equation"])
def test_fit_and_exact_do_not_depend_on_the_units_of_the_parameters(kind, unit):
    """Regressors in nanometres or in kilometres: the same answer, in standard errors."""
    if kind == "objective":
        same, model = LOGISTIC, Logistic(unit * X, LOGISTIC.y, unit**2)
    else:
        same, model = INSTRUMENTS, Instruments(U, unit * X, Y)
    fit = acv.fit(model)
    refits = acv.exact(fit, FOLDS).params
    expected = acv.fit(same, tolerance=TIGHT)
    assert expected.standard_errors_between(fit.params * unit, expected.params) < 1e-6
    for params, fold in zip(refits, FOLDS, strict=True):
        refitted = tight_refit(same, expected.params, left_out(same, fold))
        assert expected.standard_errors_between(params * unit, refitted) < 1e-6


def separable():
    """Only site 0 keeps two classes from being separable: without it the optimum is far off."""
    x = np.concatenate([[-3.0], np.linspace(0.5, 2.0, 40)])[:, None]
    return Logistic(x, np.ones(41), penalty=1e-4)


def test_exact_follows_a_fold_that_needs_many_steps():
    model = separable()
    fit = acv.fit(model)
    result = acv.exact(fit, [np.array([0]), np.array([5])])
    refitted = refit(model.objective, np.array([15.0]), left_out(model, [0]), gtol=1e-12)
    assert refitted[0] > 4 * fit.params[0]
    assert result.diagnostics["steps"][0] > 6 > result.diagnostics["steps"][1]
    assert result.diagnostics["converged"].all()
    assert fit.standard_errors_between(result.params[0], refitted) < 1e-5
    baseline = acv.infinitesimal_jackknife(fit, result.folds)
    assert fit.standard_errors_between(baseline.params[0], refitted) > 1.0


def test_exact_warns_once_of_folds_that_do_not_converge():
    """Without its first site, this model has no minimum: F falls for ever as theta grows."""
    model = separable()
    model.penalty = 0.0
    fit = acv.fit(model)
    message = "exact: 2 of 3 folds did not converge; largest decrement"
    with pytest.warns(UnconvergedFit, match=message) as record:
        result = acv.exact(fit, [np.array([0]), np.array([5]), np.array([0, 1])], tolerance=1e-12)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert_array_equal(result.diagnostics["converged"], [False, True, False])


@pytest.mark.parametrize("tolerance", [1e-11, 1e-13, 0.0])
@pytest.mark.parametrize("family", ["gaussian", "logistic"])
def test_a_decrement_that_only_rounding_keeps_up_has_converged(family, tolerance):
    x, y = load_diabetes(return_X_y=True)
    y = y if family == "gaussian" else y > 140.0
    model = GLM(20.0 * x, y, family, penalty=1.0)
    result = acv.exact(acv.fit(model), acv.folds.leave_one_out(len(y)), tolerance)
    assert result.diagnostics["converged"].all()
    assert result.diagnostics["decrement"].max() < 1e-11
    left = np.arange(len(y)) != 17
    rest = acv.fit(GLM(20.0 * x[left], y[left], family, penalty=1.0), tolerance=1e-10)
    assert rest.standard_errors_between(result.params[17], rest.params) < 1e-9
