"""Fitting: the optimum that scipy finds, honest about where it has not arrived."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from autograd import grad
from autograd.differential_operators import make_jvp
from autograd.scipy import special
from ladder_cases import INSTRUMENTS, LOGISTIC, RIDGE, TRAFFIC, U, X, Y
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from oracles.refit import refit
from oracles.toy_models import TRAFFIC_PARAMS, Instruments, Ridge, Saddle, Staged, simulate_traffic
from oracles.wrappers import ByAutograd, raises

import acvlib as acv
from acvlib import bootstrap, folds, weighting
from acvlib.derivatives import derivatives_of, kept_share
from acvlib.fit import newton_decrement
from acvlib.folds import Folds
from acvlib.models import GLM, HMM, GaussianHMM, LinearChainCRF, PoissonTraffic
from acvlib.solvers.inverse import DenseHessian
from acvlib.trials import UnconvergedFit
from acvlib.weighting import SmallObjective, hide_labels


@pytest.mark.parametrize("model", [RIDGE, INSTRUMENTS], ids=["objective", "equation"])
def test_linear_models_are_fitted_to_their_closed_form(model):
    fit = acv.fit(model)
    assert_allclose(fit.params, model.solution(np.ones(60)), rtol=1e-9)
    assert fit.newton_decrement <= 1e-6


def test_others_are_fitted_to_the_optimum_that_scipy_finds_nearby():
    fit = acv.fit(LOGISTIC, tolerance=1e-10)
    assert_allclose(fit.params, refit(LOGISTIC.objective, np.zeros(3), np.ones(60)), atol=1e-9)
    fit = acv.fit(TRAFFIC)
    refitted = refit(TRAFFIC.objective, fit.params + 0.01, np.ones(800), gtol=1e-7)
    assert fit.newton_decrement <= 1e-6
    assert fit.standard_errors_between(fit.params, refitted) <= 1e-6
    assert np.linalg.eigvalsh(fit.metric)[0] > 0.0
    slow = acv.fit(ByAutograd(TRAFFIC), start=fit.params + 0.01)
    assert slow.standard_errors_between(slow.params, fit.params) <= 2e-6


def test_fit_starts_where_it_is_told_or_the_rng_says_and_its_path_descends_to_the_optimum():
    start = np.array([3.0, 0.0, -3.0])
    assert_array_equal(acv.fit_path(RIDGE, start=start)[0], start)
    fits = [acv.fit(TRAFFIC, rng=rng) for rng in (0, np.random.default_rng(0), 1)]
    assert_array_equal(fits[0].params, fits[1].params)  # bit for bit
    assert fits[0].objective == fits[1].objective
    paths = [acv.fit_path(TRAFFIC, rng=rng) for rng in (0, np.random.default_rng(0), 1)]
    assert_array_equal(paths[0][0], paths[1][0])
    assert np.abs(paths[0][0] - paths[2][0]).max() > 0
    model = GaussianHMM(np.random.default_rng(2).normal(size=40) + np.repeat([0.0, 3.0], 20), 2)
    ours, theirs = (acv.fit(model, rng=rng).params for rng in (0, np.random.default_rng(0)))
    assert_array_equal(ours, theirs)
    raises("rng = '0': pass", acv.fit, model, rng="0")
    path = acv.fit_path(TRAFFIC)
    fit, objectives = acv.fit(TRAFFIC), [TRAFFIC.objective(params, np.ones(800)) for params in path]
    assert_array_equal(path[0], TRAFFIC.initial_params())
    assert (np.diff(objectives) <= 1e-9).all()
    errors = fit.standard_errors_between(np.array(path), fit.params)
    assert errors[-1] < 0.1 < 1.0 < errors[0]


def test_newton_decrement_is_the_distance_to_the_optimum_in_standard_errors():
    optimum, shift = RIDGE.solution(np.ones(60)), np.array([0.2, 0.0, -0.1])
    with warnings.catch_warnings(action="error"):
        fit = acv.fit_at(RIDGE, optimum + shift)
    length = np.sqrt(shift @ (X.T @ X + np.eye(3)) @ shift)
    rows = fit.params - np.array([np.zeros(3), shift])
    assert_allclose(fit.newton_decrement, length, rtol=1e-12)
    assert_allclose(fit.standard_errors_between(rows, fit.params), [0.0, length], rtol=1e-12)
    assert newton_decrement(np.ones(2), DenseHessian(np.diag([1.0, -1.0]))) == np.inf
    assert newton_decrement(np.zeros(2), DenseHessian(np.diag([1.0, 0.0]))) == np.inf


def test_an_equations_metric_is_of_its_sandwich_and_some_weight_must_reach_it():
    fit = acv.fit(INSTRUMENTS)
    u, residual = INSTRUMENTS.u, Y - X @ fit.params
    bread = np.linalg.inv(u.T @ X)
    sandwich = bread @ (u.T * residual**2) @ u @ bread.T
    assert_allclose(np.linalg.inv(fit.metric), sandwich, rtol=1e-9)
    fit = acv.fit(Staged(INSTRUMENTS.u, X, Y))
    assert_allclose(fit.params[0], np.log(0.005), rtol=1e-6)
    assert not acv.check_result(acv.exact(fit, acv.folds.k_fold(60, 4))).unreliable.any()
    with pytest.raises(ValueError, match="residual ignores the weights of all sites"):
        acv.fit(Staged(INSTRUMENTS.u[:, :1], X[:, :1], Y))


def test_a_fit_that_ends_at_a_saddle_warns_once_with_its_decrement():
    with pytest.warns(UnconvergedFit, match="fit: Newton decrement inf") as record:
        fit = acv.fit(Saddle(X[:, :2], Y), start=np.zeros(2))
    assert len(record) == 1
    assert record[0].filename == __file__
    assert fit.newton_decrement == np.inf


@pytest.mark.parametrize("kind", [type(RIDGE), type(LOGISTIC)])
def test_an_objective_far_smaller_than_a_log_density_is_warned_of(kind):
    """Their standard errors are too wide: exact refits start, and end, anywhere."""
    model = kind(X, np.sign(Y))
    acv.fit(model)
    model.objective = lambda params, weights: 1e-5 * kind.objective(model, params, weights)
    with pytest.warns(SmallObjective, match=r"vary by 0\.00\d of .*divide squares by the variance"):
        acv.fit(model)


@pytest.fixture
def model():
    x = default_rng(0).normal(size=(150, 2))
    y = default_rng(1).poisson(np.exp(0.4 * x[:, 0]))
    return GLM(x, y, "poisson", penalty=0.5, site_penalty=0.01)


def test_leave_one_out_weights_give_the_jackknife_of_folds_and_refits_are_brute_force(model):
    fit, folds = acv.fit(model), acv.folds.leave_one_out(150)
    weights = np.array([acv.folds.weights(150, fold) for fold in folds])
    jackknife = acv.infinitesimal_jackknife(fit, folds)
    assert_allclose(bootstrap.jackknife_params(fit, weights), jackknife.params, atol=1e-12)
    exact = acv.exact(fit, folds, tolerance=1e-10)
    assert_allclose(bootstrap.refits(fit, weights, 1e-10), exact.params, atol=1e-9)
    fit, weights = acv.fit(model), default_rng(0).multinomial(150, np.full(150, 1 / 150), 6)
    for row, params in zip(weights, bootstrap.refits(fit, weights, tolerance=1e-9), strict=True):
        assert_allclose(params, refit(model.objective, fit.params, row, gtol=1e-10), atol=1e-7)


def test_a_resample_without_an_optimum_is_nan_and_a_model_without_hessians_refused():
    x = np.array([-2.0, -1.0, 1.0, 2.0])[:, None]
    model = GLM(x, np.array([0.0, 1.0, 0.0, 1.0]))
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 0.0, 2.0]])
    with pytest.warns(bootstrap.UnconvergedFit, match="1 of 2 resamples"):
        params = bootstrap.refits(acv.fit(model), weights)
    assert np.isfinite(params[0]).all()
    assert np.isnan(params[1]).all()
    sequences = list(default_rng(0).normal(size=(6, 25, 1)))
    fit = acv.fit(HMM(sequences, 2, dense_limit=1), rng=default_rng(0))
    with pytest.raises(ValueError, match="7 parameters are too many .*jackknife_params, or .*HMM"):
        bootstrap.refits(fit, np.ones((1, 6)))


def test_an_estimating_equation_of_either_sign_is_solved_for_each_resample(rng):
    x = rng.normal(size=(60, 2))
    weights = rng.multinomial(60, np.full(60, 1 / 60), 4)
    for u in (x + 0.3 * rng.normal(size=(60, 2)), -1e4 * x):  # Jacobians -u'x
        model = Instruments(u, x, x @ [1.0, -1.0] + rng.normal(size=60))
        expected = [model.solution(row) for row in weights]
        assert_allclose(bootstrap.refits(acv.fit(model), weights), expected, atol=1e-9)


FOLDS = Folds([np.array([0, 4, 5]), np.arange(10, 20), np.array([29])])
PARAMS = np.array([0.3, 0.1, -0.4])
MEMBERS = [
    ("quadratic", Y, "quadratic is 60 entries: acvlib reads True or False"),
    ("convex", lambda: True, "convex is <lambda>: acvlib reads True or False"),
    ("default_priors", {"a": 1.0}, "reads a method there .* Rename yours"),
    ("residual", lambda params: Y, "either an objective .* or a residual .*: rename"),
    ("derivatives", lambda params: params, "derivatives must be .* function: rename yours"),
    ("index", pd.Index(["a", "b"]), "index holds 2 names, not 60"),
    ("sample_weight", "balanced", "sample_weight must be real numbers; got str"),
]


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


def test_a_users_class_gets_optional_members_and_gammaln_and_names_of_a_glm_mean_nothing_in_it():
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
    # Case hmm_25, a negative binomial of one's own
    derivatives_of(RIDGE)
    assert make_jvp(special.gammaln)(3.0)(2.0)[1] == 2.0 * special.psi(3.0)
    model = type("Mine", (Ridge,), {"log_prior": lambda self, params, scale: 0.0})(X, Y)
    model.family = acv.models.FAMILIES["gaussian"]
    folds = acv.folds.k_fold(model, 5, rng=0)
    expected = acv.influence(acv.fit(Ridge(X, Y))).leverage
    assert_array_equal(acv.influence(acv.fit(model)).leverage, expected)
    assert np.isnan(acv.choose([model, model], folds, "exact").table.aic).all()


@pytest.mark.parametrize("name", ["objective", "heldout_loss", "residual"])
def test_outputs_of_another_shape_are_named(name):
    kind = Instruments if name == "residual" else Ridge
    model = type("Mine", (kind,), {name: lambda self, p, _: p[:2]})(*[U, X, Y][kind is Ridge :])
    raises(rf"{name} returns shape \(2,\), must be \(", lambda: acv.exact(acv.fit(model), FOLDS))


@pytest.mark.parametrize(("name", "value", "says"), MEMBERS)
def test_members_of_a_users_class_that_mean_something_else_are_named(name, value, says):
    model = type("Mine", (Ridge,), {})(X, Y)
    setattr(model, name, value)
    raises(says, lambda: acv.exact(acv.fit(model), FOLDS), error=(TypeError, ValueError))


SERIES = simulate_traffic(np.random.default_rng(0), 40, days=9, missing=0.0)
A, B = (PoissonTraffic(*SERIES, s) for s in (weighting.keep_latents, weighting.drop_latents))


@pytest.mark.parametrize("start", [1, 20, 39, 40])
def test_proposition_3_schemes_agree_when_the_future_or_nothing_is_left_out(start):
    weights = folds.weights(40, np.arange(start, 40))
    values = [model.objective(TRAFFIC_PARAMS, weights) for model in (A, B)]
    assert_allclose(values[0] - values[1], (40 - start) * np.log(2), rtol=1e-12)
    slopes = [grad(model.objective)(TRAFFIC_PARAMS, weights) for model in (A, B)]
    assert_allclose(*slopes, rtol=0, atol=1e-12 if start < 40 else 0)


def test_a_label_has_at_most_all_of_its_weight_and_a_scheme_returns_three_arrays():
    for weight, label in ((2.0, 0), (-1.0, 0), (1.0, -1)):
        with pytest.raises(ValueError, match="of site 0 is (not from 0 to 1|outside)"):
            weighting.hide_labels(np.array([weight]), np.array([label]), 2)
    ones = np.ones(A.n_sites)
    mine = PoissonTraffic(*SERIES, lambda w, edges: tuple(weighting.drop_latents(w, edges)))
    assert mine.objective(TRAFFIC_PARAMS, ones) == B.objective(TRAFFIC_PARAMS, ones)
    for wrong in (lambda w, edges: w, lambda w, edges: (w, w, w), lambda w, edges: None):
        with pytest.raises(TypeError, match="scheme must return .observation, latent, edge."):
            PoissonTraffic(*SERIES, wrong).objective(TRAFFIC_PARAMS, ones)
