"""Exact refits against closed forms and scipy; folds that need many steps or have no optimum."""

import autograd.numpy as anp
import numpy as np
import pytest
from ladder_cases import FOLDS, INSTRUMENTS, LOGISTIC, TIGHT, U, X, Y, left_out, tight_refit
from numpy.testing import assert_array_equal
from oracles.refit import refit
from oracles.toy_models import Instruments, Logistic, OfFunctions
from sklearn.datasets import load_diabetes

import acvlib as acv
from acvlib.models import GLM, GaussianHMM, HiddenMRF, PoissonHMM
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


def test_exact_follows_a_fold_that_needs_many_steps_and_warns_once_where_there_is_no_end():
    """Only site 0 keeps two classes from being separable: without it the optimum is far off."""
    x = np.concatenate([[-3.0], np.linspace(0.5, 2.0, 40)])[:, None]
    model = Logistic(x, np.ones(41), penalty=1e-4)
    fit = acv.fit(model)
    result = acv.exact(fit, [np.array([0]), np.array([5])])
    refitted = refit(model.objective, np.array([15.0]), left_out(model, [0]), gtol=1e-12)
    assert refitted[0] > 4 * fit.params[0]
    assert result.diagnostics["steps"][0] > 6 > result.diagnostics["steps"][1]
    assert result.diagnostics["converged"].all()
    assert fit.standard_errors_between(result.params[0], refitted) < 1e-5
    baseline = acv.infinitesimal_jackknife(fit, result.folds)
    assert fit.standard_errors_between(baseline.params[0], refitted) > 1.0
    # Without its first site, this model has no minimum: F falls for ever as theta grows
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


# folds that hold all that is known of a parameter

GROUPS = np.repeat(np.arange(4), 12)
ROWS = np.random.default_rng(1).normal(size=48)
EFFECTS = np.column_stack([np.ones(48), ROWS, np.eye(4)[GROUPS]])
SIGNS = np.sign(np.sin(5.0 * ROWS) + np.array([2.0, -1.0, 1.0, -2.0])[GROUPS] / 2)


@pytest.mark.parametrize("ridge", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("door", ["GLM", "one's own"])
def test_a_parameter_that_a_fold_alone_informs_goes_back_to_its_prior(door, ridge):
    """Of the fold's group F bends by the ridge alone: by the full fit's Hessian all is settled."""
    by_glm = GLM(EFFECTS[:, 1:], SIGNS > 0, penalty=ridge)
    fit = acv.fit(by_glm if door == "GLM" else Logistic(EFFECTS, SIGNS, penalty=ridge))
    folds = acv.folds.leave_group_out(GROUPS)
    exact = acv.exact(fit, folds)
    effect = exact.params[np.arange(4), 2 + np.arange(4)]
    intercept = fit.params[0] if door == "GLM" else 1.0  # which a GLM does not penalise
    assert abs(effect).max() < 1e-3 * max(abs(intercept), 1.0)
    for method in (acv.no_adjustment, acv.infinitesimal_jackknife, acv.frozen_newton):
        result = method(fit, folds)
        check = acv.check_result(result)
        assert check.unreliable.all()
        true = fit.standard_errors_between(result.params, exact.params)
        np.testing.assert_allclose(check.theta_errors, true, rtol=0.1)
    assert not acv.check_result(exact).unreliable.any()


@pytest.mark.parametrize("seed", range(3))
def test_a_state_that_a_fold_alone_holds_goes_back_to_its_prior(seed):
    rng = np.random.default_rng(seed)
    x = np.append(rng.normal(size=4), rng.normal(9.0, 1.0, 14))
    model = GaussianHMM(x, 2, variance_prior=(1.0, 1.0))
    fit = acv.fit(model, rng=0)
    result = acv.exact(fit, [[0, 1, 2, 3], [9]])
    weights = left_out(model, [0, 1, 2, 3])
    _, gradient = model.derivatives.value_and_gradient(result.params[0], weights)
    hessian = np.asarray(model.derivatives.hessian(result.params[0], weights))
    assert np.linalg.eigvalsh(hessian)[0] > 0.0
    assert np.sqrt(gradient @ np.linalg.solve(hessian, gradient)) < 2e-6
    assert abs(fit.standard_errors_between(result.params[0], fit.params)) > 1.0


def dummies(column):
    """Poisson counts, of which some rows alone have the last column."""
    return OfFunctions(
        48,
        lambda params, weights: anp.sum(weights * poisson_losses(params, column)),
        lambda params, fold: poisson_losses(params, column)[fold],
        np.zeros(2),
    )


def poisson_losses(params, column):
    eta = params[0] + params[1] * column
    return anp.exp(eta) - (GROUPS + 2.0) * eta


CHANNELS = [np.random.default_rng(n).poisson(4.0, (20, 2)) * 1.0 for n in range(3)]
CHANNELS[0][:, 1] = CHANNELS[2][:, 1] = np.nan
ZEROS = HiddenMRF([0, 1, 0, 200, 220, 190, 250], np.empty((0, 2), int), 0.5)
ALONE = {
    "a column of a fold": (dummies(GROUPS == 1), acv.folds.leave_group_out(GROUPS)),
    "a column of a row": (dummies(np.arange(48) == 1), acv.Folds([[0], [1], [5]])),
    "a channel of a sequence": (PoissonHMM(CHANNELS, 1, (1.0, 0.0)), acv.Folds([[0], [1], [2]])),
    "a state of zeros": (ZEROS, acv.Folds([[0], [1], [4]])),
}


@pytest.mark.parametrize("name", ALONE)
def test_what_nothing_else_identifies_has_no_refit(name):
    model, folds = ALONE[name]
    fit = acv.fit(model)
    assert acv.check_result(acv.infinitesimal_jackknife(fit, folds)).unreliable[1]
    with pytest.warns(UnconvergedFit, match="fold 1: .*(alone identifies|not identified)"):
        exact = acv.exact(fit, folds)
    assert np.isfinite(exact.fold_losses).tolist()[:3] == [True, False, True]
