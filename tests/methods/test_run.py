"""What all methods do alike: results, order, threads, evaluations, warnings and bad folds."""

from dataclasses import replace

import numpy as np
import pytest
from ladder_cases import FOLDS, METHODS, RIDGE, SMALL, X, Y
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import Saddle
from oracles.wrappers import Counting

import acvlib as acv
from acvlib.models import GLM
from acvlib.solvers.inverse import IndefiniteHessian
from acvlib.trials import UnconvergedFit


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_results_are_complete_and_consistent(method, fits):
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


def test_results_show_themselves(fits):
    result = acv.exact(fits["ridge"], FOLDS)
    frame = result.to_frame()
    columns = ["size", "loss", "step_se", "indefinite", "decrement", "steps", "converged"]
    assert list(frame.columns) == columns
    assert_array_equal(frame["size"], [1, 10, 4])
    moved = result.fit.standard_errors_between(result.params, result.fit.params)
    assert_allclose(frame["step_se"], moved)
    assert f"exact: loss {result.loss:.6g}" in repr(result)


@pytest.mark.parametrize("name", [*SMALL, "traffic"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_evaluations_are_what_the_model_was_asked_for(
    method, name, fits, traffic_fit, traffic_folds
):
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


@pytest.mark.parametrize("method", [acv.infinitesimal_jackknife, acv.frozen_newton])
def test_an_indefinite_hessian_is_refused_unless_damped(method):
    model = Saddle(X[:, :2], Y)
    fit = acv.fit_at(model, np.zeros(2))
    message = r"smallest eigenvalue is -1.*pass damping > 1"
    with pytest.warns(UnconvergedFit, match="inf"), pytest.raises(IndefiniteHessian, match=message):
        method(fit, FOLDS)
    with pytest.warns(UnconvergedFit):
        assert np.isfinite(method(fit, FOLDS, damping=1.5).params).all()


def test_folds_that_one_fit_has_checked_are_checked_again_by_another(fits):
    folds = acv.Folds(list(FOLDS))
    small = acv.fit(GLM(X[:30], Y[:30], "gaussian"))
    for _ in range(2):
        assert np.isfinite(acv.newton_step(fits["ridge"], folds).loss)
        with pytest.raises(ValueError, match=r"outside 0 \.\.\. 29"):
            acv.newton_step(small, folds)
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


def test_models_answer_to_their_protocols():
    assert all(isinstance(SMALL[name], acv.Model) for name in ("ridge", "logistic"))
    for name in ("instruments", "curved"):
        assert isinstance(SMALL[name], acv.EstimatingEquation)
        assert not isinstance(SMALL[name], acv.Model)
    assert not isinstance(RIDGE, acv.EstimatingEquation)


def test_what_is_no_fit_and_a_fit_of_another_size_are_refused(fits):
    fit = fits["ridge"]
    with pytest.raises(ValueError, match=r"params \(9,\) must be \(4,\)"):
        replace(acv.fit(GLM(X, Y, "gaussian")), params=np.zeros(9))
    with pytest.raises(TypeError, match=r"is of type Ridge: give acv.fit\(model\)"):
        acv.newton_step(fit.model, FOLDS)
    with pytest.raises(TypeError, match="has no n_sites"):
        acv.derivatives_of(X)


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
