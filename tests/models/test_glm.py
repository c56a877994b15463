"""GLMs: closed forms against autograd, against delete-and-refit, and by rate."""

import weakref
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.refit import central_difference, refit
from oracles.wrappers import ByAutograd, no_collector
from scipy.special import softmax
from scipy.stats import norm
from threadpoolctl import threadpool_limits

import acvlib as acv
from acvlib import parallel
from acvlib.models import FAMILIES, GLM
from acvlib.models.glm.derivatives import SINGLE
from acvlib.models.glm.hessians import Downdates

N = 42
SETTINGS = {
    "plain": {},
    "penalty": {"penalty": 2.0},
    "site penalty": {"site_penalty": 0.1},
    "a ridge a column": {"penalty": [0.5, 0.0, 3.0], "site_penalty": 0.05},
    "no intercept": {"penalty": 1.0, "intercept": False},
    "weights": {"site_penalty": 0.1, "sample_weight": np.resize([0.0, 1.0, 2.0, 1.0], N)},
}


def draw(family, rng, n=N, p=3, scale=0.5):
    x = rng.normal(size=(n, p))
    mean = FAMILIES[family].mean(0.3 + scale * x @ rng.normal(size=p))
    draws = {
        "gaussian": rng.normal,
        "poisson": rng.poisson,
        "poisson rate": lambda m: rng.gamma(2.0, m),
        "logistic": lambda m: rng.binomial(1, m),
    }
    return x, np.asarray(draws.get(family, draws["logistic"])(mean), float)


def models():
    rng = np.random.default_rng(3)
    for family in FAMILIES:
        for name in SETTINGS if family == "logistic" else ("plain", "weights"):
            x, y = draw(family, np.random.default_rng(5))
            yield f"{family}, {name}", GLM(x, y, family, **SETTINGS[name])
    x = rng.normal(size=(N, 2)) + 0.3
    classes = np.array([rng.choice(3, p=p) for p in softmax(x @ rng.normal(size=(2, 3)), axis=1)])
    targets = x @ rng.normal(size=(2, 4)) + rng.normal(size=(N, 4))
    some = {"penalty": 0.7, "sample_weight": np.tile([0.0, 1.0, 2.0], 14)}
    more = {"penalty": 0.7, "balanced": True, "sample_weight": np.tile([1.0, 2.5], 21)}
    of_classes = {"penalty": {"penalty": 0.7}, "plain": {}, "site penalty": {"site_penalty": 0.1}}
    of_classes |= {"no intercept": {"penalty": 0.7, "intercept": False}, "weights": some}
    of_classes |= {"balanced": {"penalty": 0.7, "balanced": True}, "balanced, weights": more}
    for name, settings in of_classes.items():
        yield f"classes, {name}", GLM(x, classes, "multinomial", **settings)
    yield "two classes, balanced", GLM(x, classes % 2, "multinomial", **more)
    for name, settings in {"penalty": {"penalty": 0.7}, "weights": some, "plain": {}}.items():
        yield f"targets, {name}", GLM(x, targets, "gaussian", **settings)


MODELS = dict(models())


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request):
    return request.param


@pytest.fixture
def some_folds(model):
    """Single sites, pairs in a table, and unequal folds."""
    sites = np.flatnonzero(model.observed)
    return [
        acv.folds.leave_one_out(model),
        acv.Folds(sites[: len(sites) // 2 * 2].reshape(-1, 2)),
        acv.folds.k_fold(model, 5, np.random.default_rng(0)),
    ]


def both(name, model, *arguments):
    """The same method of the model's own derivatives and of those by autograd."""
    each = (acv.derivatives_of(model), acv.derivatives_of(ByAutograd(model)))
    return tuple(getattr(derivatives, name)(*arguments) for derivatives in each)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_differentiate_themselves(family):
    law = FAMILIES[family]
    eta = np.linspace(-4, 4, 41)
    y = draw(family, np.random.default_rng(0), n=41)[1]
    for function, derivative in (("loss", "slope"), ("slope", "curvature")):
        numeric = central_difference(lambda e, f=function: getattr(law, f)(e, y), eta)
        assert_allclose(np.diag(numeric), getattr(law, derivative)(eta, y), rtol=1e-7, atol=1e-8)
    third = abs(np.diag(central_difference(lambda e: law.curvature(e, y), eta)))
    assert law.self_concordant == (third <= law.curvature(eta, y) * (1 + 1e-7) + 1e-9).all()
    assert_allclose(law.link(law.mean(eta / 2)), eta / 2, atol=1e-12)


def test_losses_are_normalised():
    eta, counts = np.array([0.4]), np.arange(60.0)
    assert_allclose(np.exp(-FAMILIES["poisson"].loss(eta, counts)).sum(), 1.0)
    assert_allclose(FAMILIES["gaussian"].loss(eta, 1.0), -norm.logpdf(1.0, 0.4))
    for name in ("logistic", "probit"):
        assert_allclose(sum(np.exp(-FAMILIES[name].loss(eta, y)) for y in (0.0, 1.0)), 1.0)


def test_one_weighting_equals_autograd(model, rng):
    params = model.initial_params() + 0.3 * rng.normal(size=model.n_params)
    for weights in (np.ones(N), rng.random(N) + 0.1):
        for own, slow in zip(*both("value_and_gradient", model, params, weights), strict=True):
            assert_allclose(own, slow, rtol=1e-11, atol=1e-11)
        for name in ("hessian", "cross_matrix"):
            at = np.ones(N) if name == "cross_matrix" else weights
            own, slow = both(name, model, params, at)
            assert_allclose(np.asarray(own), np.asarray(slow), rtol=1e-11, atol=1e-11)


def test_many_folds_equal_autograd(model, some_folds, rng):
    for folds, damping in ((some_folds[0][::3], 0.5), *product(some_folds[1:], (0.0, 0.5))):
        scattered = model.initial_params() + 0.3 * rng.normal(size=(len(folds), model.n_params))
        vectors = rng.normal(size=scattered.shape)
        rows = np.arange(len(folds))[::-2]
        for params in (scattered, scattered[0]):
            for values in (True, False):
                own, slow = both("fold_gradients", model, params, folds, values)
                assert_allclose(own[1], slow[1], rtol=1e-11, atol=1e-11)
                assert not values or np.allclose(own[0], slow[0], rtol=1e-11, atol=1e-11)
            losses = both("heldout", model, params, folds)
            assert_allclose(*(np.concatenate(list(each)) for each in losses), rtol=1e-12)
            own, slow = both("fold_hessians", model, params, folds, damping)
            for name in ("solve", "descend"):
                found = getattr(own, name)(vectors), getattr(own, name)(vectors[rows], rows)
                expected = slow.solve(vectors)
                assert_allclose(found[0], expected, rtol=1e-9, atol=1e-11)
                assert_allclose(found[1], expected[rows], rtol=1e-9, atol=1e-11)
            assert not own.indefinite.any()
        assert_allclose(*both("cross", model, scattered[0], folds), rtol=1e-11, atol=1e-11)
        own, slow = both("fold_hessians", model, scattered[0], folds, damping)
        steps = slow.solve(both("fold_gradients", model, scattered[0], folds)[1][1])
        ends = own.newton_ends(model.derivatives, scattered[0], folds)
        assert_allclose(ends, scattered[0] - steps, rtol=1e-9, atol=1e-11)


def wide_model(family, rows, penalty):
    """A GLM of 61 params, so that folds of up to 30 rows are few rows."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(rows, 60))
    signal = 0.3 * X[:, 0] + 0.1 * rng.normal(size=rows)
    y = {"logistic": signal > 0.0, "gaussian": signal, "poisson": rng.poisson(np.exp(signal))}
    weights = rng.uniform(0.5, 2.0, rows)
    return GLM(X, y[family].astype(float), family, penalty=penalty, sample_weight=weights)


@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("family", ["logistic", "gaussian", "poisson"])
def test_folds_of_few_rows_share_the_factor_of_one_hessian(family, damping):
    model = wide_model(family, 2000, 0.3)
    fit = acv.fit(model)
    folds = acv.folds.Folds([np.arange(0, 20), np.arange(30, 37), np.array([118, 40])])
    own, slow = both("fold_hessians", model, fit.params, folds, damping, fit.hessian)
    assert isinstance(own, Downdates)
    vectors = np.random.default_rng(3).normal(size=(3, 61))
    assert_allclose(own.solve(vectors), slow.solve(vectors), rtol=1e-9, atol=1e-12)
    some = np.array([2, 0])
    assert_allclose(own.solve(vectors[some], some), slow.solve(vectors)[some], rtol=1e-9)
    vectors[1] = np.nan  # one that overflowed stays with itself
    found = own.solve(vectors)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[some]).all()


def test_folds_that_leave_a_direction_nearly_flat_have_hessians_of_their_own():
    """Where downdates of one factor would lose the digits that are left."""
    model = wide_model("gaussian", 70, 1e-6)
    fit = acv.fit(model)
    folds = acv.folds.Folds([np.arange(30)])
    own, slow = both("fold_hessians", model, fit.params, folds, 0.0, fit.hessian)
    assert not isinstance(own, Downdates)
    vectors = np.ones((1, 61))
    assert_allclose(own.solve(vectors), slow.solve(vectors), rtol=1e-6)


def test_threads_that_share_the_folds_leave_no_trace():
    """With threads of BLAS and without, at a size that is worth sharing."""
    model = GLM(*draw("logistic", np.random.default_rng(5), n=60_000, p=100, scale=0.1))
    fit, folds = acv.fit(model), acv.folds.leave_one_out(60_000)
    alone = acv.newton_step(fit, folds)
    with threadpool_limits(2, "blas"):
        with parallel.one_blas_thread.inside() as n_threads:
            assert n_threads == 2
        shared = acv.newton_step(fit, folds)
    assert_allclose(alone.params, shared.params, rtol=1e-12, atol=1e-14)


def test_exact_equals_delete_and_refit_and_methods_err_in_order(model, some_folds):
    fit = acv.fit(model, tolerance=1e-10)
    for folds in some_folds:
        result = acv.exact(fit, folds, tolerance=1e-9)
        assert result.diagnostics["converged"].all()
        for fold, params in list(zip(folds, result.params, strict=True))[:4]:
            found = refit(model.objective, fit.params, acv.folds.weights(N, fold), gtol=1e-10)
            assert_allclose(params, found, atol=1e-7)
        methods = (acv.newton_step, acv.infinitesimal_jackknife, acv.no_adjustment)
        errors = [abs(method(fit, folds).params - result.params).mean() for method in methods]
        assert errors[0] < errors[1] < errors[2]
        if model.quadratic:
            assert errors[0] < 1e-12


def test_gradients_are_few_a_fold_and_in_single_precision_as_accurate_as_they_say():
    model = GLM(*draw("logistic", np.random.default_rng(4), n=2000, p=10))
    result = acv.exact(acv.fit(model), acv.folds.leave_one_out(2000))
    assert result.evaluations["gradient"] <= 3.1 * 2000
    model = GLM(*draw("logistic", np.random.default_rng(7), n=700, p=5))
    fit, folds = acv.fit(model), acv.folds.leave_one_out(700)
    derivatives = acv.derivatives_of(model)
    moved = fit.params + 3.0 * (acv.newton_step(fit, folds).params - fit.params)
    furthest = fit.standard_errors_between(moved, fit.params).max()
    single = derivatives.chord_gradients(moved, folds, fit.params, np.inf)
    error = single - derivatives.chord_gradients(moved, folds, fit.params, 0.0)
    error_in_se = np.sqrt(np.einsum("ni,ni->n", error, fit.hessian.solve(error.T).T)).max()
    assert 0.0 < error_in_se <= SINGLE * furthest


def test_a_model_goes_with_its_last_name(rng):
    """No cycle keeps a design, which may be most of a process' memory, until it is collected."""
    model = GLM(rng.standard_normal((30, 2)), rng.standard_normal(30), "gaussian", penalty=1.0)
    acv.newton_step(acv.fit(model), acv.folds.leave_one_out(30))
    design = weakref.ref(model.columns.standard)
    with no_collector():
        del model
        assert design() is None


@pytest.mark.parametrize("family", ["logistic", "poisson", "gaussian"])
@pytest.mark.parametrize("method", [acv.infinitesimal_jackknife, acv.newton_step])
def test_bounds_without_a_gradient_hold_against_refits(family, method):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(150, 4)) * rng.exponential(size=(150, 1))  # some rows of high leverage
    mean = FAMILIES[family].mean(0.5 * x[:, 0])
    draw = {"logistic": rng.binomial, "poisson": lambda _, m: rng.poisson(m)}
    y = draw[family](1, mean) if family in draw else rng.normal(mean)
    model = GLM(x, y, family, penalty=0.5)
    fit = acv.fit(model)
    folds = acv.folds.leave_one_out(150)
    result = method(fit, folds)
    exact = acv.exact(fit, folds, tolerance=1e-10)
    check = acv.check_result(result)
    errors = fit.standard_errors_between(result.params, exact.params)
    sure = ~check.unreliable
    assert (errors <= np.maximum(check.theta_errors, 0.5) + 1e-8)[sure].all()
    assert check.gradients < 75
    ends, radius, _ = model.derivatives.newton_bounds(fit, folds)
    assert (fit.standard_errors_between(ends, exact.params) <= radius + 1e-8).all()
    assert model.derivatives.newton_bounds(fit, acv.Folds([[1, 2]])) is None


@pytest.mark.parametrize("name", ["plain", "a ridge a column", "weights", "targets"])
@pytest.mark.parametrize("method", [acv.newton_step, acv.exact])
def test_a_level_of_y_costs_losses_its_last_place_and_slopes_nothing(name, method):
    level = 2.0**30
    x, y = draw("gaussian", np.random.default_rng(5))
    y = np.round(np.stack([y, y[::-1]], axis=1) if name == "targets" else y)
    models = [GLM(x, each, "gaussian", **SETTINGS.get(name, {})) for each in (y, y + level)]
    here, there = (method(acv.fit(model), acv.folds.k_fold(models[0], 5)) for model in models)
    size = 4.0 * np.spacing(level) * (1.0 + abs(y).max())
    assert_allclose(there.pointwise, here.pointwise, rtol=0.0, atol=size)
    slopes = [np.delete(run.params, np.s_[::4], axis=1) for run in (here, there)]
    assert_allclose(*slopes, rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("family", ["poisson", "poisson rate"])
@pytest.mark.parametrize("far", [60.0, 200.0, 1000.0])
def test_a_refit_is_that_of_the_rows_left_whatever_it_says_of_the_others(family, far):
    """Its mean of the row that is far off is 1e10 to 1e170."""
    x, y = np.append(np.linspace(-3.0, 3.0, 13), far)[:, None], np.append(np.arange(13) // 2, 0)
    folds = acv.Folds([[1], [13], [2, 13]])
    refits = acv.exact(acv.fit(GLM(x, y, family, penalty=0.1)), folds)
    for params, fold in zip(refits.params, folds, strict=True):
        left = (np.delete(each, fold, axis=0) for each in (x, y))
        alone = acv.fit(GLM(*left, family, penalty=0.1))
        assert alone.standard_errors_between(alone.params, params) < 1e-5
