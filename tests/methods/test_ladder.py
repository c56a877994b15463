"""Each rung: the baseline, its rate or where it ends, the order of them all, and its marks."""

from dataclasses import replace

import ladder_cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder_cases import CASES, FOLDS, METHODS, RIDGE, SMALL, TIGHT, X, Y, case, left_out
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import Saddle
from oracles.wrappers import Counting, raises

import acvlib as acv
from acvlib.methods.ladder import IndefiniteFold
from acvlib.models import GLM
from acvlib.solvers.inverse import IndefiniteHessian
from acvlib.trials import UnconvergedFit


def test_no_adjustment_keeps_the_full_fit_and_rescaling_divides_steps_by_the_share_kept(fits):
    result = acv.no_adjustment(fits["ridge"], FOLDS)
    assert_array_equal(result.params, np.tile(fits["ridge"].params, (3, 1)))
    assert_allclose(result.losses[1], (Y - X @ fits["ridge"].params)[:10] ** 2 / 2, rtol=1e-13)
    plain = acv.frozen_newton(fits["ridge"], FOLDS, rescale=False).params - fits["ridge"].params
    scaled = acv.frozen_newton(fits["ridge"], FOLDS).params - fits["ridge"].params
    assert_allclose(scaled * np.array([[59.0], [50.0], [56.0]]) / 60, plain, rtol=1e-12)


def test_higher_rungs_of_traffic_are_nearer_to_exact(traffic_fit, traffic_folds, traffic_exact):
    rungs = [method(traffic_fit, traffic_folds) for method in METHODS[:4]]
    table = acv.compare_methods(traffic_exact, *rungs)["theta_error"]
    assert table["exact"] == 0.0
    assert table["newton_step"] < table["frozen_newton"] < table["infinitesimal_jackknife"]
    assert table["frozen_newton"] < table["no_adjustment"]


@settings(max_examples=25)
@given(st.lists(st.sets(st.integers(0, 59), min_size=1, max_size=20), min_size=1, max_size=4))
def test_all_rungs_of_a_quadratic_agree_with_the_closed_form_as_they_promise(sets):
    folds, fit = [np.array(sorted(s)) for s in sets], acv.fit(RIDGE, tolerance=TIGHT)
    closed = np.array([RIDGE.solution(left_out(RIDGE, fold)) for fold in folds])
    error = [fit.standard_errors_between(method(fit, folds).params, closed) for method in METHODS]
    assert error[3].max() < 1e-8
    assert error[4].max() < 1e-6
    assert (error[1] < error[0] + 1e-12).all()


@pytest.mark.parametrize("name", CASES)
def test_half_the_perturbation_gives_a_quarter_of_the_jackknifes_error(name, fits, traffic_fit):
    """And half of that of no adjustment, the negative control."""
    model, fit, fold = case(name, fits, traffic_fit)
    step = acv.infinitesimal_jackknife(fit, [fold]).params[0] - fit.params
    for move, low, high in ((step, 3.5, 4.5), (0.0 * step, 1.8, 2.2)):
        errors = ladder_cases.errors_at_shares(model, fit, fold, move, [0.02, 0.01, 0.005])
        ratios = errors[:-1] / errors[1:]
        assert ((ratios > low) & (ratios < high)).all(), errors


@pytest.mark.filterwarnings("ignore::acvlib.trials.UnconvergedFit")
@pytest.mark.parametrize("away", [0.0, 0.3])
@pytest.mark.parametrize("name", SMALL)
def test_for_linear_weights_a_frozen_step_is_the_jackknife_but_for_the_gradient(name, away, fits):
    fit = acv.fit_at(SMALL[name], fits[name].params + away)
    rungs = (acv.frozen_newton(fit, FOLDS, rescale=False), acv.infinitesimal_jackknife(fit, FOLDS))
    _, gradient = fit.derivatives.value_and_gradient(fit.params, np.ones(60))
    gap = np.tile(-np.linalg.solve(fit.hessian, gradient), (3, 1))
    assert_allclose(rungs[0].params - rungs[1].params, gap, rtol=0, atol=1e-10)


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("name", [*SMALL, "traffic"])
def test_repeated_frozen_steps_converge_to_exact(name, rescale, fits, traffic_fit, traffic_folds):
    traffic = name == "traffic"
    fit, folds = (traffic_fit, traffic_folds[:20]) if traffic else (fits[name], FOLDS)
    exact = acv.exact(fit, folds, tolerance=1e-6 if traffic else TIGHT)
    rows = [acv.frozen_newton(fit, folds, steps=s, rescale=rescale).params for s in (1, 2, 4, 60)]
    worst = np.median if traffic else np.max
    errors = [worst(fit.standard_errors_between(row, exact.params)) for row in rows]
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < (2e-6 if traffic else 1e-7)


@pytest.mark.parametrize("name", ["ridge", "instruments"])
def test_one_newton_step_is_exact_for_a_linear_problem_from_anywhere(name):
    model = SMALL[name]
    with pytest.warns(UnconvergedFit):
        step = acv.newton_step(acv.fit_at(model, np.array([5.0, -1.0, 2.0])), FOLDS)
    expected = [model.solution(left_out(model, fold)) for fold in FOLDS]
    assert_allclose(step.params, expected, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::acvlib.trials.UnconvergedFit")
@pytest.mark.parametrize("name", ["logistic", "traffic A"])
def test_half_the_distance_gives_a_quarter_of_the_newton_steps_error(name, fits, traffic_fit):
    """Started at distance d from the optimum it ends O(d^2) away."""
    model, fit, fold = case(name, fits, traffic_fit)
    optimum = ladder_cases.tight_refit(model, fit.params, left_out(model, fold))
    values, vectors = np.linalg.eigh(fit.metric)
    away = 0.05 * vectors[:, 0] / np.sqrt(values[0])
    starts = [acv.fit_at(model, optimum + scale * away) for scale in (1.0, 0.5, 0.25)]
    ends = np.array([acv.newton_step(start, [fold]).params[0] for start in starts])
    errors = fit.standard_errors_between(ends, optimum)
    assert ((errors[:-1] / errors[1:] > 3.5) & (errors[:-1] / errors[1:] < 4.5)).all(), errors


def test_newton_step_marks_indefinite_folds_and_others_refuse_their_hessian_unless_damped():
    fit = acv.fit_at(Saddle(X[:, :2], Y), np.zeros(2))
    with pytest.warns((IndefiniteFold, UnconvergedFit)) as record:
        result = acv.newton_step(fit, FOLDS)
    ours = [w for w in record if w.category is IndefiniteFold]
    assert len(ours) == 1
    assert "3 of 3 folds" in str(ours[0].message)
    assert "fold 0" in str(ours[0].message)
    assert ours[0].filename == __file__
    assert result.indefinite.all()
    message = r"smallest eigenvalue is -1.*pass damping > 1"
    for method in (acv.infinitesimal_jackknife, acv.frozen_newton):
        with pytest.warns(UnconvergedFit, match="inf"):
            raises(message, method, fit, FOLDS, error=IndefiniteHessian)
        with pytest.warns(UnconvergedFit):
            assert np.isfinite(method(fit, FOLDS, damping=1.5).params).all()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_results_are_complete_and_consistent_and_show_themselves(method, fits):
    result = method(fits["ridge"], FOLDS)
    assert result.method == method.__name__
    assert result.params.shape == (3, 3)
    assert [len(losses) for losses in result.losses] == [1, 10, 4]
    for params, fold, losses in zip(result.params, FOLDS, result.losses, strict=True):
        assert_array_equal(losses, RIDGE.heldout_loss(params, fold))
    assert_allclose(result.fold_totals, [losses.sum() for losses in result.losses], rtol=1e-14)
    assert_allclose(result.fold_losses, [losses.mean() for losses in result.losses], rtol=1e-14)
    assert_allclose(result.loss, np.concatenate(result.losses).mean(), rtol=1e-14)
    assert result.seconds > 0.0
    assert all(np.shape(column) == (3,) for column in result.diagnostics.values())
    if method is acv.exact:
        frame = result.to_frame()
        columns = ["size", "loss", "step_se", "indefinite", "decrement", "steps", "converged"]
        assert list(frame.columns) == columns
        assert_array_equal(frame["size"], [1, 10, 4])
        moved = result.fit.standard_errors_between(result.params, result.fit.params)
        assert_allclose(frame["step_se"], moved)
        assert f"exact: loss {result.loss:.6g}" in repr(result)


@pytest.mark.parametrize("name", [*SMALL, "traffic"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_evaluations_are_what_models_were_asked(method, name, fits, traffic_fit, traffic_folds):
    fit, folds = (fits[name], FOLDS) if name in SMALL else (traffic_fit, traffic_folds)
    counting = Counting(fit.model)
    said = method(replace(fit, model=counting), folds).evaluations
    assert set(said) <= {"gradient", "hessian", "cross", "heldout"}
    assert counting.calls["heldout"] == said["heldout"] == len(folds)
    if name in SMALL:
        assert counting.calls["objective"] == said["gradient"] + said["hessian"] + said["cross"]
    else:
        assert all(counting.calls[n] == said[n] for n in ("gradient", "hessian", "cross"))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_an_unconverged_fit_is_allowed_and_warned_of_once_with_its_decrement(method, fits):
    fit = acv.fit_at(RIDGE, fits["ridge"].params + 0.1)
    expected = f"{method.__name__}: Newton decrement {fit.newton_decrement:.3g} is above 1e-06"
    with pytest.warns(UnconvergedFit, match=expected) as record:
        result = method(fit, FOLDS)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert np.isfinite(result.loss)


def test_folds_that_one_fit_has_checked_are_checked_again_by_another(fits):
    folds = acv.Folds(list(FOLDS))
    small = acv.fit(GLM(X[:30], Y[:30], "gaussian"))
    for _ in range(2):
        assert np.isfinite(acv.newton_step(fits["ridge"], folds).loss)
        raises(r"outside 0 \.\.\. 29", acv.newton_step, small, folds)
    one_class = acv.fit(GLM(X[:30], np.arange(30.0) < 3, penalty=1.0))
    lost = acv.Folds([[0, 1, 2], [7]])
    for _ in range(2):
        with pytest.warns(UnconvergedFit, match="fold 0 leaves responses of one class alone"):
            acv.infinitesimal_jackknife(one_class, lost)


def test_methods_leave_fit_and_folds_as_they_were(fits):
    fit = fits["logistic"]
    params = fit.params.copy()
    folds = [fold.copy() for fold in FOLDS]
    for method in METHODS:
        result = method(fit, folds)
    assert_array_equal(fit.params, params)
    assert all(map(np.array_equal, folds, FOLDS))
    for frozen in (fit, result):
        with pytest.raises(AttributeError):
            frozen.params = np.zeros(3)


def test_models_answer_to_their_protocols_and_what_is_no_fit_is_refused(fits):
    assert all(isinstance(SMALL[name], acv.Model) for name in ("ridge", "logistic"))
    for name in ("instruments", "curved"):
        assert isinstance(SMALL[name], acv.EstimatingEquation)
        assert not isinstance(SMALL[name], acv.Model)
    assert not isinstance(RIDGE, acv.EstimatingEquation)
    fit = fits["ridge"]
    with pytest.raises(ValueError, match=r"params \(9,\) must be \(4,\)"):
        replace(acv.fit(GLM(X, Y, "gaussian")), params=np.zeros(9))
    with pytest.raises(TypeError, match=r"is of type Ridge: give acv.fit\(model\)"):
        acv.newton_step(fit.model, FOLDS)
    raises("has no n_sites", acv.derivatives_of, X, error=TypeError)


def test_losses_of_hidden_states_are_linearised_too(rng):
    model = acv.models.GaussianHMM(rng.normal(size=60) + np.repeat([0.0, 3.0], 30), 2)
    fit = acv.fit(model, rng=rng)
    folds = acv.folds.k_fold(60, 5)
    result = acv.infinitesimal_jackknife(fit, folds)
    linear = acv.linearised(result).losses
    for losses, params, fold in zip(linear, result.params, folds, strict=True):
        move = 1e-4 * (params - fit.params)
        there, back = (model.heldout_loss(fit.params + way * move, fold) for way in (1, -1))
        expected = model.heldout_loss(fit.params, fold) + (there - back) / 2e-4
        np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-7)
