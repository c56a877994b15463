"""GLMs: closed forms against autograd, against delete-and-refit, and by rate."""

import pickle
import weakref
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.refit import central_difference, refit
from oracles.wrappers import ByAutograd, no_collector
from scipy.stats import norm
from sklearn.metrics import mean_tweedie_deviance
from threadpoolctl import threadpool_limits

import acvlib as acv
from acvlib import parallel
from acvlib.derivatives import derivatives_of
from acvlib.models import FAMILIES, GLM, tweedie
from acvlib.models.glm.downdates import Downdates
from acvlib.models.glm.sums import SINGLE

SETTINGS = {
    "plain": {},
    "penalty": {"penalty": 2.0},
    "site penalty": {"site_penalty": 0.1},
    "a ridge a column": {"penalty": [0.5, 0.0, 3.0], "site_penalty": 0.05},
    "no intercept": {"penalty": 1.0, "intercept": False},
    "weights and offset": {
        "site_penalty": 0.1,
        "sample_weight": np.tile([0.0, 1.0, 2.0, 1.0], 10),
        "offset": 0.3,
    },
}


def draw(family, rng, n=40, p=3, scale=0.5):
    """X (n, p) Gaussian and y from the family."""
    x = rng.normal(size=(n, p))
    mean = FAMILIES[family].mean(0.3 + scale * x @ rng.normal(size=p))
    draws = {
        "gaussian": rng.normal,
        "poisson": rng.poisson,
        "poisson rate": lambda m: rng.gamma(2.0, m),
        "gamma": lambda m: rng.gamma(2.0, m),
        "logistic": lambda m: rng.binomial(1, m),
    }
    return x, np.asarray(draws.get(family, draws["logistic"])(mean), float)


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(params=SETTINGS.values(), ids=SETTINGS.keys())
def model(request, family):
    return GLM(*draw(family, np.random.default_rng(5)), family, **request.param)


@pytest.fixture
def some_folds(model):
    """Single sites, pairs in a table, and unequal folds."""
    sites = np.flatnonzero(model.observed)
    pairs = sites[: len(sites) // 2 * 2].reshape(-1, 2)
    one = acv.folds.leave_one_out(model.n_sites, model.observed)
    return [
        one,
        acv.Folds(pairs),
        acv.folds.k_fold(model.n_sites, 7, np.random.default_rng(0), model.observed),
    ]


def both(name, model, *arguments):
    """The same method of the model's own derivatives and of those by autograd."""
    each = (acv.derivatives_of(model), acv.derivatives_of(ByAutograd(model)))
    return tuple(getattr(derivatives, name)(*arguments) for derivatives in each)


def test_families_differentiate_themselves(family):
    one = FAMILIES[family]
    eta, rng = np.linspace(-4, 4, 41), np.random.default_rng(0)
    y = draw(family, rng, n=41)[1]
    for function, derivative in (("loss", "slope"), ("slope", "curvature"), ("curvature", "third")):
        numeric = central_difference(lambda e, f=function: getattr(one, f)(e, y), eta)
        assert_allclose(np.diag(numeric), getattr(one, derivative)(eta, y), rtol=1e-7, atol=1e-8)
    assert_allclose(one.link(one.mean(eta / 2)), eta / 2, atol=1e-12)


def test_families_know_their_peaks_and_their_self_concordance(family):
    one, eta = FAMILIES[family], np.linspace(-6, 6, 12001)
    for y in (0.0, 1.0):
        curvature_at, third = one.curvature(eta, y + 0 * eta), abs(one.third(eta, y + 0 * eta))
        for peaks, values in ((one.curvature_peaks, curvature_at), (one.third_peaks, third)):
            inner = np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])) + 1
            assert all(min(abs(eta[i] - peak) for peak in peaks) < 2e-3 for i in inner)
        assert one.self_concordant == (third <= curvature_at * (1 + 1e-12)).all()


@pytest.mark.parametrize("power", [1.2, 1.5, 2.0])
def test_tweedie_losses_are_half_their_deviances(power):
    """Up to a constant, by scikit-learn's deviance; and convex, with derivatives to third order."""
    one, eta = tweedie(power), np.linspace(-3, 3, 61)
    for y in (0.0, 0.7, 3.0)[power == 2.0 :]:
        deviances = [mean_tweedie_deviance([y], [mean], power=power) for mean in np.exp(eta)]
        assert_allclose(np.ptp(one.loss(eta, y) - 0.5 * np.array(deviances)), 0.0, atol=1e-9)
        for function, derivative in pairwise((one.loss, one.slope, one.curvature, one.third)):
            numeric = central_difference(lambda e, f=function, y=y: f(e, y), eta)
            assert_allclose(np.diag(numeric), derivative(eta, y), rtol=1e-6, atol=1e-7)
        assert (one.curvature(eta, y) > 0.0).all()
        assert (abs(one.third(eta, y)) <= one.curvature(eta, y) * (1 + 1e-12)).all()
    again = pickle.loads(pickle.dumps(one))
    assert_allclose(again.loss(eta, 0.7), one.loss(eta, 0.7))


@pytest.mark.parametrize("power", [1.0, 0.5, 2.5, np.nan])
def test_tweedie_powers_that_are_not_convex_are_refused(power):
    with pytest.raises(ValueError, match="power"):
        tweedie(power)


def test_losses_are_normalised():
    eta, counts = np.array([0.4]), np.arange(60.0)
    assert_allclose(np.exp(-FAMILIES["poisson"].loss(eta, counts)).sum(), 1.0)
    assert_allclose(FAMILIES["gaussian"].loss(eta, 1.0), -norm.logpdf(1.0, 0.4))
    for name in ("logistic", "probit"):
        assert_allclose(sum(np.exp(-FAMILIES[name].loss(eta, y)) for y in (0.0, 1.0)), 1.0)


def test_one_weighting_equals_autograd(model):
    rng = np.random.default_rng(1)
    params, weights = 0.3 * rng.normal(size=model.design.shape[1]), rng.random(model.n_sites)
    for own, slow in zip(*both("value_and_gradient", model, params, weights), strict=True):
        assert_allclose(own, slow, rtol=1e-11, atol=1e-11)
    for name in ("hessian", "cross_matrix"):
        own, slow = both(name, model, params, weights)
        assert_allclose(np.asarray(own), np.asarray(slow), rtol=1e-11, atol=1e-11)


def test_many_folds_equal_autograd(model, some_folds):
    rng = np.random.default_rng(2)
    for folds in some_folds:
        scattered = 0.3 * rng.normal(size=(len(folds), model.design.shape[1]))
        for params in (scattered, scattered[0]):
            for own, slow in zip(*both("fold_gradients", model, params, folds), strict=True):
                assert_allclose(own, slow, rtol=1e-11, atol=1e-11)
            own, slow = both("fold_hessians", model, params, folds)
            assert_allclose(own.solve(scattered), slow.solve(scattered), rtol=1e-9, atol=1e-11)
            assert not own.indefinite.any()
            losses = both("heldout", model, params, folds)
            assert_allclose(*(np.concatenate(list(each)) for each in losses), rtol=1e-12)
        assert_allclose(*both("cross", model, scattered[0], folds), rtol=1e-11, atol=1e-11)


def test_losses_of_fewer_sites_than_are_omitted(model):
    sites = np.flatnonzero(model.observed)[:6]
    rng = np.random.default_rng(2)
    params = 0.3 * rng.normal(size=(2, model.design.shape[1]))
    listed = acv.Folds([sites[:3], sites[3:]], [sites[1:3], sites[5:]])
    table = acv.Folds(sites.reshape(2, 3), sites.reshape(2, 3)[:, :2])
    for folds in (listed, table):
        for at in (params, params[0]):
            losses = both("heldout", model, at, folds)
            assert_allclose(*(np.concatenate(list(each)) for each in losses), rtol=1e-12)


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("optimal", [True, False])
def test_newton_steps_equal_autograd(model, some_folds, damping, optimal):
    fit = acv.fit(model) if optimal else acv.fit_at(model, np.full(model.design.shape[1], 0.2))
    for folds in some_folds:
        (own, H), (slow, slow_H) = both(
            "fold_expansion", model, fit.params, folds, damping, fit.hessian
        )
        steps = [
            each - fit.params
            for each in (H.step_from(fit.params, own), slow_H.step_from(fit.params, slow))
        ]
        assert_allclose(*steps, rtol=1e-10, atol=1e-12)
        assert not H.indefinite.any()


@pytest.mark.parametrize("rows", [None, np.array([3, 0, 3, 7])])
def test_a_fold_solver_solves_for_the_rows_it_is_asked_for(model, some_folds, rows):
    params = np.full(model.design.shape[1], 0.2)
    for folds in some_folds:
        wanted = np.arange(len(folds)) if rows is None else np.minimum(rows, len(folds) - 1)
        vectors = np.random.default_rng(3).normal(size=(len(wanted), len(params)))
        own, slow = both("fold_hessians", model, params, folds)
        expected = slow.solve(vectors, wanted)
        asked = rows if rows is None else wanted
        assert_allclose(own.solve(vectors, asked), expected, rtol=1e-9, atol=1e-11)
        assert_allclose(own.descend(vectors, asked), expected, rtol=1e-9, atol=1e-11)


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
    model = wide_model(family, 120, 0.3)
    fit = acv.fit(model)
    folds = acv.folds.Folds([np.arange(0, 30), np.arange(30, 37), np.array([118, 40])])
    own, slow = both("fold_hessians", model, fit.params, folds, damping, fit.hessian)
    assert isinstance(own, Downdates)
    vectors = np.random.default_rng(3).normal(size=(3, 61))
    assert_allclose(own.solve(vectors), slow.solve(vectors), rtol=1e-9, atol=1e-12)
    some = np.array([2, 0])
    assert_allclose(own.solve(vectors[some], some), slow.solve(vectors)[some], rtol=1e-9)


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
        assert parallel.one_blas_thread.n_threads() == 2
        shared = acv.newton_step(fit, folds)
    assert_allclose(alone.params, shared.params, rtol=1e-12, atol=1e-14)


def test_exact_equals_delete_and_refit(model, some_folds):
    fit = acv.fit(model)
    for folds in some_folds:
        result = acv.exact(fit, folds, tolerance=1e-9)
        assert result.diagnostics["converged"].all()
        for fold, params in list(zip(folds, result.params, strict=True))[:4]:
            weights = acv.folds.weights(model.n_sites, fold)
            assert_allclose(
                params, refit(model.objective, fit.params, weights, gtol=1e-10), atol=1e-7
            )


def test_exact_folds_have_at_most_the_decrement_they_report(family):
    """In the metric that is documented: the fold's Hessian at the full fit."""
    model = GLM(*draw(family, np.random.default_rng(3), n=300, p=8, scale=0.3), family)
    folds = acv.folds.leave_one_out(300)
    fit, slow = acv.fit(model), acv.derivatives_of(ByAutograd(model))
    result = acv.exact(fit, folds)
    _, gradients = slow.fold_gradients(result.params, folds)
    hessians = slow.fold_hessians(fit.params, folds)
    decrement = np.sqrt(np.einsum("ni,ni->n", gradients, hessians.solve(gradients)))
    assert (decrement <= result.diagnostics["decrement"] * (1 + 1e-6) + 1e-12).all()
    assert result.diagnostics["decrement"].max() <= 1e-6


def test_few_gradients_a_fold():
    model = GLM(*draw("logistic", np.random.default_rng(4), n=2000, p=10))
    result = acv.exact(acv.fit(model), acv.folds.leave_one_out(2000))
    assert result.evaluations["gradient"] <= 3.1 * 2000


def distance(model, fit, eps):
    """SE between optimum and first-order expansion at w = 1 - eps in the first three sites."""
    weights = np.ones(model.n_sites)
    weights[:3] -= eps
    cross = acv.derivatives_of(model).cross_matrix(fit.params, np.ones(model.n_sites))
    expansion = fit.params - fit.hessian.solve(cross @ (weights - 1))
    return fit.standard_errors_between(
        refit(model.objective, fit.params, weights, gtol=1e-11), expansion
    )


def test_halving_the_perturbation_quarters_the_jackknife_error(model):
    fit = acv.fit(model, tolerance=1e-11)
    ratios = [distance(model, fit, eps) / distance(model, fit, eps / 2) for eps in (0.1, 0.05)]
    assert_allclose(ratios, 4.0, rtol=0.15)
    assert abs(ratios[1] - 4) < abs(ratios[0] - 4)


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_single_precision_gradients_are_as_accurate_as_they_say(family):
    model = GLM(*draw(family, np.random.default_rng(7), n=700, p=5), family)
    fit, folds = acv.fit(model), acv.folds.leave_one_out(700)
    derivatives = acv.derivatives_of(model)
    moved = fit.params + 3.0 * (acv.newton_step(fit, folds).params - fit.params)
    furthest = fit.standard_errors_between(moved, fit.params).max()
    single = derivatives.chord_gradients(moved, folds, fit.params, np.inf)
    error = single - derivatives.chord_gradients(moved, folds, fit.params, 0.0)
    error_in_se = np.sqrt(np.einsum("ni,ni->n", error, fit.hessian.solve(error.T).T)).max()
    assert 0.0 < error_in_se <= SINGLE * furthest


def test_newton_step_is_exact_for_squares():
    model = GLM(*draw("gaussian", np.random.default_rng(6)), "gaussian", penalty=0.7)
    fit = acv.fit(model, tolerance=1e-12)
    folds = acv.folds.leave_one_out(40)
    assert_allclose(acv.newton_step(fit, folds).params, acv.exact(fit, folds).params, atol=1e-12)


def test_a_model_goes_with_its_last_name():
    """No cycle keeps a design, which may be most of a process' memory, until it is collected."""
    rng = np.random.default_rng(0)
    model = GLM(rng.standard_normal((30, 2)), rng.standard_normal(30), "gaussian", penalty=1.0)
    acv.newton_step(acv.fit(model), acv.folds.leave_one_out(30))
    design = weakref.ref(model.design)
    with no_collector():
        del model
        assert design() is None


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_survives_pickling(family):
    model = GLM(*draw(family, np.random.default_rng(3), n=8), family, 1.0)
    copied = pickle.loads(pickle.dumps(model))
    assert copied.family is model.family
    np.testing.assert_array_equal(acv.fit(copied).params, acv.fit(model).params)


def test_a_family_of_ones_own_survives_pickling():
    own = FAMILIES["gaussian"]._replace(
        name="own", **dict.fromkeys(("slope", "curvature", "third", "mean", "link"), abs)
    )
    own = own._replace(free_direction=abs, change=None)
    assert pickle.loads(pickle.dumps(own)) == own


def test_a_model_keeps_copies_that_cannot_be_written():
    x, y = draw("poisson", np.random.default_rng(3))
    offset = np.full(len(y), 0.1)
    weights = np.ones(len(y))
    model = GLM(x, y, "poisson", offset=offset, sample_weight=weights)
    before = acv.fit(model)
    x[:] = 7.0
    y[:] = 7.0
    offset[:] = 7.0
    weights[:] = 7.0
    np.testing.assert_array_equal(acv.fit(model).params, before.params)
    for name in ("X", "y", "offset", "sample_weight", "design"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(model, name)[0] = 1.0


@pytest.mark.parametrize("intercept", [True, False])
def test_a_model_without_columns_is_the_mean(intercept):
    y = np.tile([0.0, 1.0, 1.0, 0.0, 1.0], 4)
    model = GLM(np.empty((20, 0)), y, intercept=intercept)
    folds = acv.folds.leave_one_out(20)
    result = acv.exact(acv.fit(model), folds)
    mean = (y.sum() - y) / 19 if intercept else np.full(20, 0.5)
    expected = -np.log(np.where(y == 1, mean, 1 - mean))
    assert_allclose(np.ravel(result.losses), expected, atol=1e-6)
    for method in (acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step):
        assert_allclose(np.ravel(method(result.fit, folds).losses), expected, atol=0.01)


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
    assert model.derivatives.leverages(fit, acv.Folds([[1, 2]])) is None


def test_folds_that_share_a_factor_keep_a_vector_that_overflowed_to_themselves():
    x, y = counts_on_ten_columns()
    model = GLM(x, y, "poisson", penalty=1.0)
    fit = acv.fit(model)
    hessians = derivatives_of(model).fold_hessians(fit.params, acv.folds.k_fold(60, 20))
    assert isinstance(hessians, Downdates)
    vectors = np.random.default_rng(1).standard_normal((20, model.n_params))
    known = hessians.solve(vectors)
    vectors[3] = np.nan
    found = hessians.solve(vectors)
    assert np.isnan(found[3]).all()
    np.testing.assert_array_equal(np.delete(found, 3, 0), np.delete(known, 3, 0))


def counts_on_ten_columns():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 10))
    return x, rng.poisson(np.exp(0.3 * x[:, 0])).astype(float)


@pytest.mark.parametrize("family", ["logistic", "multinomial", "gaussian"])
def test_units_and_levels_of_columns_do_not_change_steps(family):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3))
    y = {
        "logistic": rng.binomial(1, 0.5, 60),
        "multinomial": np.arange(60) % 3,
        "gaussian": rng.normal(size=(60, 2)),
    }[family]
    scale, level = np.array([1e6, 1.0, 1e-4]), np.array([0.0, 450_000.0, 3.0])
    moved = (x + level) * scale
    penalties = (0.0, 0.0) if family == "gaussian" else (0.3, 0.3 * scale**2)  # one a target there
    pairs = zip((x, moved), penalties, strict=True)
    both = [GLM(columns, y, family, penalty) for columns, penalty in pairs]
    assert [model.columns.plain for model in both] == [True, False]
    fits = [acv.fit(model, tolerance=1e-10) for model in both]
    for folds in (acv.folds.leave_one_out(60), acv.folds.k_fold(60, 30), acv.folds.k_fold(60, 4)):
        for method in (acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step):
            one, other = (method(fit, folds) for fit in fits)
            assert_allclose(one.pointwise, other.pointwise, rtol=1e-7, atol=1e-9)
