"""`check_result` and `refit_unreliable` against exact refits."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd.tracer import getval
from oracles.toy_models import WELLS, Cox, CurvedInstruments, Logistic, OfFunctions
from oracles.wrappers import raises

import acvlib as acv

KINDS = ["objective", "equation"]


def model_of(kind, rng, n=200):
    x = rng.normal(size=(n, 2))
    if kind == "objective":
        return Logistic(x, np.sign(x[:, 0] + rng.normal(size=n)))
    y = np.exp(x @ [1.0, -1.0] / 4) + 0.3 * rng.normal(size=n)
    return CurvedInstruments(x + 0.3 * rng.normal(size=(n, 2)), x, y)


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_the_distances_from_the_exact_refits_which_are_reliable(kind, rng):
    model = model_of(kind, rng)
    fit = acv.fit(model)
    folds = acv.folds.k_fold(model.n_sites, 20, rng)
    exact = acv.exact(fit, folds)
    for method in (acv.no_adjustment, acv.infinitesimal_jackknife):
        result = method(fit, folds)
        check = acv.check_result(result, limit=0.02)
        true = fit.standard_errors_between(result.params, exact.params)
        np.testing.assert_allclose(check.theta_errors, true, rtol=0.3, atol=2e-3)
        clear = np.abs(true - 0.02) > 0.005
        far = np.abs(result.fold_losses - exact.fold_losses) > 0.02 * result.fold_losses.std()
        assert (check.unreliable == ((true > 0.02) | far))[clear].mean() > 0.9
    exact = acv.exact(fit, acv.folds.leave_one_out(model.n_sites))
    check = acv.check_result(exact, limit=1e-3)
    assert not check.unreliable.any()
    looks = {"objective": 2, "equation": 1}  # at the fit and at the refit, or there alone
    assert check.gradients == looks[kind] * model.n_sites


def test_folds_of_high_leverage_are_found_where_the_full_hessian_hides_them(rng):
    """Rows 0 and 1 alone keep the slope finite."""
    x = np.sort(rng.normal(size=60))
    y = np.sign(x)
    y[[0, 1]] = 1.0
    model = Logistic(np.column_stack([np.ones(60), x]), y, penalty=0.01)
    fit = acv.fit(model)
    folds = acv.folds.leave_one_out(model.n_sites)
    exact = acv.exact(fit, folds)
    for method in (acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step):
        result = method(fit, folds)
        true = fit.standard_errors_between(result.params, exact.params)
        check = acv.check_result(result)
        assert check.unreliable[true > 0.5].all()
        assert true[0] > 0.5
        refitted = acv.refit_unreliable(result, check)
        assert fit.standard_errors_between(refitted.params, exact.params).max() < 0.55
        np.testing.assert_array_equal(refitted.diagnostics["refitted"], check.unreliable)
        mended, expected = (each.params[check.unreliable] for each in (refitted, exact))
        np.testing.assert_allclose(mended, expected, atol=1e-4)
        assert f"{check.unreliable.sum()} folds refitted" in refitted.method
        assert refitted.seconds > result.seconds + check.seconds


@pytest.mark.parametrize("kind", KINDS)
def test_params_that_are_far_off_or_not_finite_are_unreliable(kind, rng):
    model = model_of(kind, rng)
    fit = acv.fit(model)
    folds = acv.folds.k_fold(model.n_sites, 6, rng)
    frozen = acv.frozen_newton(fit, folds, steps=3)
    frozen.params[1] = np.nan
    frozen.params[2] += 3.0
    frozen.params[3] = 1e200
    check = acv.check_result(frozen)
    assert check.unreliable.tolist() == [False, True, True, True, False, False]
    assert "not finite" in str(check)
    assert "standard errors" in str(check)
    assert str(check).startswith("3 of 6 folds are unreliable; fold 1")
    refitted = acv.refit_unreliable(frozen)
    exact = acv.exact(fit, folds)
    np.testing.assert_allclose(refitted.params[1:4], exact.params[1:4], atol=1e-8)


def test_flags_of_ones_own_are_refitted_and_nothing_else_and_lost_folds_are_named(rng):
    """Group d has all rows of a class."""
    model = acv.models.GLM(rng.normal(size=(12, 1)), np.arange(12) > 9, penalty=1.0)
    folds = acv.folds.leave_group_out(np.repeat(list("abcd"), 3))
    with pytest.warns(acv.trials.UnconvergedFit, match="fold d leaves"):
        still = acv.no_adjustment(acv.fit(model), folds)
    with pytest.warns(acv.trials.UnconvergedFit, match="fold d leaves responses of one class"):
        acv.difference_estimate(still, 4, 0)
    for flags in ([False, False, False, True], [True, False, False, True]):
        with pytest.warns(acv.trials.UnconvergedFit, match="fold d leaves responses of one class"):
            refitted = acv.refit_unreliable(still, np.array(flags))
        assert (refitted.params != still.params).any(axis=1).tolist() == flags
        assert np.isnan(refitted.fold_losses).tolist() == [False, False, False, True]


def test_a_check_of_another_result_is_refused(rng):
    fit = acv.fit(model_of("objective", rng))
    folds = acv.folds.k_fold(200, 4, rng)
    still = acv.no_adjustment(fit, folds)
    for other in (acv.no_adjustment(fit, folds[::-1]), acv.infinitesimal_jackknife(fit, folds)):
        with pytest.raises(ValueError, match="this check is of another result"):
            acv.refit_unreliable(still, acv.check_result(other))


PLACES = np.array([-9.0, *np.linspace(2.0, 3.0, 11)])


def test_points_at_which_a_model_fails_mark_their_fold():
    """Params above 2, where the refit of a fold without site 0 lies, are refused."""

    def objective(params, weights):
        return (weights * anp.logaddexp(0.0, (PLACES - params[0]) ** 2 / 4)).sum()

    def heldout_loss(params, fold):
        if params[0] > 2.0:
            raise ValueError("log_density must be finite")
        return (PLACES[fold] - params[0]) ** 2

    fit = acv.fit(OfFunctions(12, objective, heldout_loss, [1.0]))
    result = acv.no_adjustment(fit, acv.folds.leave_one_out(12))
    assert fit.params[0] < 2.0
    check = acv.check_result(result)
    assert check.unreliable[0]
    assert np.isinf(check.loss_errors[0])
    assert not check.unreliable.all()


@pytest.mark.filterwarnings("ignore::acvlib.methods.ladder.IndefiniteFold")
def test_an_indefinite_fold_is_unreliable_however_short_its_step_and_leaves_its_mark():
    step = acv.newton_step(acv.fit(WELLS), acv.folds.leave_one_out(5))
    check = acv.check_result(step)
    assert check.theta_errors[0] < 0.01  # at the top between two wells, where the gradient is small
    assert check.unreliable.tolist() == [True, False, False, False, False]
    refitted = acv.refit_unreliable(step, check)
    assert abs(refitted.params[0, 1]) == pytest.approx(1.0, abs=1e-5)
    assert not refitted.indefinite.any()
    kept = acv.refit_unreliable(step, np.arange(5) == 1)
    assert kept.indefinite.tolist() == [True, False, False, False, False]


@pytest.mark.filterwarnings("ignore::acvlib.methods.ladder.IndefiniteFold")
def test_folds_of_overlapping_states_are_judged_as_their_refits_say():
    """Means a standard deviation apart: F is not linear in the weights, and steps end far off."""
    far, marked = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        state = np.cumsum(rng.random(100) < 0.1) % 2
        model = acv.models.GaussianHMM(state + rng.normal(size=100), 2)
        fit = acv.fit(model, rng=0)
        folds = acv.folds.k_fold(model.n_sites, 10, np.random.default_rng(seed))
        exact = acv.exact(fit, folds)
        for method in (acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step):
            result = method(fit, folds)
            losses = abs(result.fold_losses - exact.fold_losses) / exact.fold_losses.std()
            errors = fit.standard_errors_between(result.params, exact.params)
            far.append((errors > 0.5) | (losses > 0.5))
            marked.append(acv.check_result(result).unreliable)
    found = np.sum(np.array(far) & marked)
    assert np.sum(far) > 20
    assert found >= 0.98 * np.sum(far)
    assert found >= 0.8 * np.sum(marked)


def test_neither_a_row_of_nearly_all_leverage_and_no_residual_nor_a_plateau_is_trusted():
    """No score tells that it alone holds the slope."""
    x = np.array([0.2, -0.1, -2.3, 0.4, -2.1, 10.6, 0.6, 0.8])[:, None]
    fit = acv.fit(acv.models.GLM(x, np.array([1.0, 0, 0, 1, 0, 192, 0, 4]), "poisson", penalty=0.1))
    result = acv.newton_step(fit, acv.folds.leave_one_out(8))
    true = fit.standard_errors_between(result.params, acv.exact(fit, result.folds).params)
    assert true[5] > 100.0
    assert acv.check_result(result).unreliable[5]
    # A standard deviation of a state runs far, through gradients that look small
    digits = "202210202265554435542334433313454435553434323322334245443444"
    fit = acv.fit(acv.models.GaussianHMM([int(digit) - 2.0 for digit in digits], 3), rng=0)
    result = acv.frozen_newton(fit, [[6, 20, 23, 32, 33, 46, 47, 54], [2, 24, 29, 35, 43, 49]])
    true = fit.standard_errors_between(result.params, acv.exact(fit, result.folds).params)
    check = acv.check_result(result)
    assert true[0] > 10.0
    assert check.theta_errors[0] == pytest.approx(true[0], rel=1e-3)
    assert check.unreliable.tolist() == [True, False]


POINT = np.array([0.3, -0.2, 0.1])


def cox(rng, **settings):
    return Cox(rng.normal(size=(60, 3)), rng.exponential(size=60), **settings)


def test_cox_models_pass_unless_they_forget_a_weight_or_the_order_and_equations_too(rng):
    model = cox(rng)
    errors = acv.check_model(model, POINT, rng, model.without)
    assert set(errors) == {"gradient", "hessian", "cross", "corner", "heldout", "deletion"}
    assert max(errors.values()) < 1e-5
    raises(r"params \(2,\): initial_params .* gives \(3,\)", acv.check_model, model, POINT[:2], rng)
    rng = np.random.default_rng(0)
    model = cox(rng)
    right = model.heldout_loss
    model.heldout_loss = lambda params, fold: right(params, np.sort(fold))
    raises("errors of heldout .* in the order of the fold", acv.check_model, model, POINT, rng)
    rng = np.random.default_rng(0)
    model = cox(rng, risk="none")
    assert max(acv.check_model(model, POINT, rng).values()) < 1e-4
    with pytest.raises(ValueError, match="errors of deletion .*multiply every term"):
        acv.check_model(model, POINT, rng, model.without)
    rng = np.random.default_rng(0)
    errors = acv.check_model(model_of("equation", rng, 60), POINT[:2], rng)
    assert set(errors) == {"hessian", "cross", "corner", "heldout"}


class Root(Logistic):
    def objective(self, params, weights):
        return super().objective(params, weights + 0.01 * anp.sqrt(weights))


class Kinked(Logistic):
    def objective(self, params, weights):
        return super().objective(params, anp.where(weights > 1e-6, weights, 0.5 * weights))


@pytest.mark.parametrize("kind", [Root, Kinked, None])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_weights_that_are_not_smooth_at_zero_are_found(kind, rng):
    model = cox(rng, risk="all")  # has a logarithm of the weights
    if kind is not None:
        model = kind(rng.normal(size=(50, 3)), np.sign(rng.normal(size=50)))
    message = "corner" if kind else "errors of corner inf: at weight 0"
    raises(message, acv.check_model, model, POINT, rng)


@pytest.mark.parametrize("message", [r"weights of 1 sites, such as \[59\]", "but the sum"])
def test_weights_that_are_unread_are_named(message, rng):
    model = Logistic(rng.normal(size=(60, 3)), np.sign(rng.normal(size=60)))
    model.objective = lambda p, w: Logistic.objective(
        model, p, anp.append(w[:-1], 1.0) if "59" in message else anp.sum(w) * np.ones(60)
    )
    raises(message, acv.check_model, model, POINT, rng)


@pytest.mark.parametrize("unit", [1e-9, 1e-4, 1.0, 1e5, 1e9])
def test_derivatives_are_right_or_wrong_in_any_units_of_parameters(unit, rng):
    x, y = rng.normal(size=(60, 3)) * [unit, 1.0, 1.0 / unit], np.sign(rng.normal(size=60))
    point = POINT / [unit, 1.0, 1.0 / unit]
    model = Logistic(x, y, penalty=0.0)
    assert max(acv.check_model(model, point, rng).values()) < 1e-4
    model.objective = lambda p, w: (
        Logistic.objective(model, p, w) * (1.0 + 1e-3 * getval(p[0]) * unit)
    )
    raises("errors of .*gradient", acv.check_model, model, point, rng)
