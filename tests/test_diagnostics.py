"""`check_model` on models that are wrong in one way each."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd.tracer import getval
from oracles.toy_models import Cox, CurvedInstruments, Logistic

import acvlib as acv

POINT = np.array([0.3, -0.2, 0.1])


def cox(rng, **settings):
    return Cox(rng.normal(size=(60, 3)), rng.exponential(size=60), **settings)


def test_a_cox_model_that_weighs_its_risk_sets_passes(rng):
    model = cox(rng)
    errors = acv.check_model(model, POINT, rng, model.without)
    assert set(errors) == {"gradient", "hessian", "cross", "corner", "heldout", "deletion"}
    assert max(errors.values()) < 1e-5
    with pytest.raises(ValueError, match=r"params \(2,\): initial_params .* gives \(3,\)"):
        acv.check_model(model, POINT[:2], rng)


def test_a_cox_model_that_forgets_a_weight_fails_by_deletion_alone(rng):
    model = cox(rng, risk="none")
    assert max(acv.check_model(model, POINT, rng).values()) < 1e-4
    with pytest.raises(ValueError, match="errors of deletion .*multiply every term"):
        acv.check_model(model, POINT, rng, model.without)


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
    with pytest.raises(ValueError, match=message):
        acv.check_model(model, POINT, rng)


@pytest.mark.parametrize("message", [r"weights of 1 sites, such as \[59\]", "but the sum"])
def test_weights_that_are_unread_are_named(message, rng):
    model = Logistic(rng.normal(size=(60, 3)), np.sign(rng.normal(size=60)))
    model.objective = lambda p, w: Logistic.objective(
        model, p, anp.append(w[:-1], 1.0) if "59" in message else anp.sum(w) * np.ones(60)
    )
    with pytest.raises(ValueError, match=message):
        acv.check_model(model, POINT, rng)


def test_estimating_equations_are_checked_by_their_residual(rng):
    x = rng.normal(size=(60, 2))
    y = np.exp(x @ [1.0, -1.0] / 4) + 0.3 * rng.normal(size=60)
    errors = acv.check_model(CurvedInstruments(x, x, y), POINT[:2], rng)
    assert set(errors) == {"hessian", "cross", "corner", "heldout"}


@pytest.mark.parametrize("unit", [1e-9, 1e-4, 1.0, 1e5, 1e9])
def test_derivatives_are_right_or_wrong_in_any_units_of_parameters(unit, rng):
    x, y = rng.normal(size=(60, 3)) * [unit, 1.0, 1.0 / unit], np.sign(rng.normal(size=60))
    point = POINT / [unit, 1.0, 1.0 / unit]
    model = Logistic(x, y, penalty=0.0)
    assert max(acv.check_model(model, point, rng).values()) < 1e-4
    model.objective = lambda p, w: (
        Logistic.objective(model, p, w) * (1.0 + 1e-3 * getval(p[0]) * unit)
    )
    with pytest.raises(ValueError, match="errors of .*gradient"):
        acv.check_model(model, point, rng)


def test_losses_in_another_order_than_the_fold_are_found(rng):
    model = cox(rng)
    right = model.heldout_loss
    model.heldout_loss = lambda params, fold: right(params, np.sort(fold))
    with pytest.raises(ValueError, match="errors of heldout .* in the order of the fold"):
        acv.check_model(model, POINT, rng)
