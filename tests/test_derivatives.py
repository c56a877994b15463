"""Derivatives by autograd, their overrides, and fold weights."""

import joblib
import numpy as np
import pandas as pd
import pytest
from autograd.differential_operators import make_jvp
from autograd.scipy import special
from ladder_cases import INSTRUMENTS, RIDGE, U, X, Y
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import Instruments, Ridge

import acvlib as acv
from acvlib.derivatives import derivatives_of, kept_share
from acvlib.folds import Folds
from acvlib.models import LinearChainCRF
from acvlib.weighting import hide_labels

FOLDS = Folds([np.array([0, 4, 5]), np.arange(10, 20), np.array([29])])
PARAMS = np.array([0.3, 0.1, -0.4])


@pytest.mark.parametrize("one_point", [True, False])
@pytest.mark.parametrize("model", [RIDGE, INSTRUMENTS], ids=["objective", "equation"])
def test_fold_functions_evaluate_each_fold_at_its_own_weights_and_params(model, one_point, rng):
    params = PARAMS if one_point else rng.standard_normal((3, 3))
    own = derivatives_of(model)

    def numbers():
        values, gradients = own.fold_gradients(params, FOLDS)
        return values, gradients, own.fold_hessians(params, FOLDS).matrices

    alone = numbers()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert all(map(np.array_equal, alone, numbers()))
    losses = own.heldout(params, FOLDS)
    for i, fold in enumerate(FOLDS):
        point = params if one_point else params[i]
        weights = acv.folds.weights(60, fold)
        firsts = own.value_and_gradient(point, weights)
        expected = (*firsts, np.asarray(own.hessian(point, weights)))
        assert all(np.array_equal(a[i], b) for a, b in zip(alone, expected, strict=True))
        assert_array_equal(losses[i], model.heldout_loss(point, fold))


def test_a_users_class_gets_the_optional_members_that_it_lacks():
    assert derivatives_of(RIDGE).defaults.observed is None
    assert_allclose(kept_share(RIDGE, FOLDS), [19 / 20, 5 / 6, 59 / 60], rtol=1e-15)
    holes = Ridge(X, Y)
    holes.observed = np.arange(60) % 3 > 0
    holes.convex = True
    assert derivatives_of(holes).defaults.convex
    assert_allclose(kept_share(holes, Folds([np.array([1, 2])])), [0.95], rtol=1e-15)
    scores, tags = [np.zeros((2, 2)), np.zeros((3, 2))], [[0, 1], [0, 1, 1]]
    crf = LinearChainCRF(scores, tags, scheme=hide_labels, sample_weight=[3.0, 1.0])
    assert_allclose(kept_share(crf, Folds([[0], [4]])), [6 / 9, 8 / 9], rtol=1e-15)


def test_gammaln_has_a_forward_mode_for_emissions_of_users():
    derivatives_of(RIDGE)
    assert make_jvp(special.gammaln)(3.0)(2.0)[1] == 2.0 * special.psi(3.0)


@pytest.mark.parametrize("name", ["objective", "heldout_loss", "residual"])
def test_outputs_of_another_shape_are_named(name):
    kind = Instruments if name == "residual" else Ridge
    model = type("Mine", (kind,), {name: lambda self, p, _: p[:2]})(*[U, X, Y][kind is Ridge :])
    with pytest.raises(ValueError, match=rf"{name} returns shape \(2,\), must be \("):
        acv.exact(acv.fit(model), FOLDS)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("quadratic", Y, "quadratic is 60 entries: acvlib reads True or False"),
        ("convex", lambda: True, "convex is <lambda>: acvlib reads True or False"),
        ("default_priors", {"a": 1.0}, "reads a method there .* Rename yours"),
        ("residual", lambda params: Y, "either an objective .* or a residual .*: rename"),
        ("derivatives", lambda params: params, "derivatives must be .* function: rename yours"),
        ("index", pd.Index(["a", "b"]), "index holds 2 names, not 60"),
        ("sample_weight", "balanced", "sample_weight must be real numbers; got str"),
    ],
)
def test_members_of_a_users_class_that_mean_something_else_are_named(name, value, says):
    model = type("Mine", (Ridge,), {})(X, Y)
    setattr(model, name, value)
    with pytest.raises((TypeError, ValueError), match=says):
        acv.exact(acv.fit(model), FOLDS)


def test_names_of_a_glm_mean_nothing_in_a_users_class():
    model = type("Mine", (Ridge,), {"log_prior": lambda self, params, scale: 0.0})(X, Y)
    model.family = acv.models.FAMILIES["gaussian"]
    folds = acv.folds.k_fold(model, 5, rng=0)
    expected = acv.influence(acv.fit(Ridge(X, Y))).leverage
    assert_array_equal(acv.influence(acv.fit(model)).leverage, expected)
    assert np.isnan(acv.choose([model, model], folds, "exact").table.aic).all()
