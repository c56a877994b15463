"""Regressions of classes and of several targets: against autograd, refits and scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.refit import refit
from oracles.wrappers import ByAutograd
from scipy.special import softmax

import acvlib as acv
from acvlib.models import GLM

N = 42
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2)) + 0.3
CLASSES = np.array([RNG.choice(3, p=p) for p in softmax(X @ RNG.normal(size=(2, 3)), axis=1)])
TARGETS = X @ RNG.normal(size=(2, 4)) + RNG.normal(size=(N, 4))
WEIGHTS = np.tile([0.0, 1.0, 2.0], 14)
MODELS = {
    "classes": GLM(X, CLASSES, "multinomial", penalty=0.7),
    "no penalty": GLM(X, CLASSES, "multinomial"),
    "no intercept": GLM(X, CLASSES, "multinomial", penalty=0.7, intercept=False),
    "weights": GLM(X, CLASSES, "multinomial", penalty=0.7, sample_weight=WEIGHTS),
    "balanced": GLM(X, CLASSES, "multinomial", penalty=0.7, balanced=True),
    "balanced, weights": GLM(
        X, CLASSES, "multinomial", penalty=0.7, balanced=True, sample_weight=np.tile([1.0, 2.5], 21)
    ),
    "two classes, balanced": GLM(X, CLASSES % 2, "multinomial", penalty=0.7, balanced=True),
    "targets": GLM(X, TARGETS, "gaussian", penalty=0.7),
    "targets, penalties": GLM(
        X, TARGETS, "gaussian", penalty=[0.7, 2.0], sample_weight=WEIGHTS
    ),
    "targets, no penalty": GLM(X, TARGETS, "gaussian"),
}


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def model(request):
    return request.param


@pytest.fixture
def some_folds(model):
    """Single sites, pairs in a table, and unequal folds."""
    sites = np.flatnonzero(model.observed)
    return [
        acv.folds.leave_one_out(model.n_sites, model.observed),
        acv.Folds(sites[: len(sites) // 2 * 2].reshape(-1, 2)),
        acv.folds.k_fold(model.n_sites, 5, np.random.default_rng(0), model.observed),
    ]


def both(name, model, *arguments):
    """The same method of the model's own derivatives and of those by autograd."""
    each = (acv.derivatives_of(model), acv.derivatives_of(ByAutograd(model)))
    return tuple(getattr(derivatives, name)(*arguments) for derivatives in each)


def test_derivatives_equal_autograd(model, rng):
    params = model.initial_params() + 0.3 * rng.normal(size=model.n_params)
    for weights in (np.ones(N), rng.random(N) + 0.1):
        ours, theirs = both("value_and_gradient", model, params, weights)
        assert_allclose(ours[0], theirs[0], rtol=1e-12)
        assert_allclose(ours[1], theirs[1], atol=1e-9)
        ours, theirs = both("hessian", model, params, weights)
        assert_allclose(np.asarray(ours), np.asarray(theirs), atol=1e-9)
    ours, theirs = both("cross_matrix", model, params, np.ones(N))
    assert_allclose(ours, theirs, atol=1e-9)


def test_fold_derivatives_equal_autograd(model, some_folds, rng):
    params = model.initial_params() + 0.3 * rng.normal(size=model.n_params)
    for folds in some_folds:
        ours, theirs = both("cross", model, params, folds)
        assert_allclose(ours, theirs, atol=1e-9)
        own = params + 0.2 * rng.normal(size=(len(folds), model.n_params))
        for points in (params, own):
            ours, theirs = both("fold_gradients", model, points, folds)
            assert_allclose(ours[0], theirs[0], rtol=1e-10)
            assert_allclose(ours[1], theirs[1], atol=1e-8)
            ours, theirs = both("heldout", model, points, folds)
            assert_allclose(np.concatenate(ours), np.concatenate(theirs), rtol=1e-10)
            ours, theirs = both("fold_hessians", model, points, folds, 0.3)
            vectors = rng.normal(size=own.shape)
            assert_allclose(ours.solve(vectors), theirs.solve(vectors), atol=1e-8)
            rows = np.arange(len(folds))[::-2]
            assert_allclose(
                ours.solve(vectors[rows], rows), theirs.solve(vectors[rows], rows), atol=1e-8
            )
        gradients, H = acv.derivatives_of(model).fold_expansion(params, folds)
        slopes, G = acv.derivatives_of(ByAutograd(model)).fold_expansion(params, folds)
        assert_allclose(H.step_from(params, gradients), G.step_from(params, slopes), atol=1e-8)


def test_exact_equals_refits_and_methods_err_in_order(model, some_folds):
    fit = acv.fit(model, tolerance=1e-10)
    for folds in some_folds:
        result = acv.exact(fit, folds, 1e-9)
        for fold, params in zip(folds[:3], result.params[:3], strict=True):
            found = refit(model.objective, fit.params, acv.folds.weights(N, fold))
            assert_allclose(params, found, atol=1e-6)
        errors = [
            abs(method(fit, folds).params - result.params).mean()
            for method in (acv.newton_step, acv.infinitesimal_jackknife, acv.no_adjustment)
        ]
        assert errors[0] < errors[1] < errors[2]
        if model.quadratic:
            assert errors[0] < 1e-10


def test_the_model_is_what_methods_take_it_for(model, rng):
    def without(sites):
        """The same model without some rows, where balanced weights are those of the rest."""
        kept = np.setdiff1d(np.arange(N), sites)
        family = model.family
        return GLM(
            X[kept],
            model.y[kept],
            family,
            penalty=model.penalty,
            intercept=model.intercept,
            sample_weight=model.sample_weight[kept],
            balanced=model.balanced,
        )

    acv.check_model(model, acv.fit(model).params, rng, without=without)


def test_bounds_hold(model):
    fit = acv.fit(model, tolerance=1e-10)
    if model.quadratic:
        with pytest.raises(acv.NotConcordant, match="use acv.exact"):
            acv.certify(acv.newton_step(fit, acv.folds.leave_one_out(N, model.observed)))
        return
    for folds in (
        acv.folds.leave_one_out(N, model.observed),
        acv.folds.k_fold(N, 6, np.random.default_rng(0), model.observed),
    ):
        exact = acv.exact(fit, folds, 1e-10)
        for method in (acv.newton_step, acv.infinitesimal_jackknife):
            for sharp in (False, True):
                found = acv.certify(method(fit, folds), sharp=sharp)
                seen = found.certified
                true = fit.standard_errors_between(found.result.params, exact.params)
                assert (true <= found.theta_errors + 1e-7)[seen].all()
                low, high = found.loss_interval.T
                losses = exact.fold_losses
                assert ((low - 1e-7 <= losses) & (losses <= high + 1e-7))[seen].all()
                assert seen.mean() > 0.9 or np.min(model.penalty) == 0.0


@pytest.mark.parametrize("name", ["balanced", "balanced, weights"])
def test_as_many_folds_as_there_are_bases_each_take_their_own(name):
    """Bases are in the order of their weights, folds in any."""
    model = MODELS[name]
    fit = acv.fit(model)
    sites = [int(np.flatnonzero(model.y == label)[0]) for label in (0, 1, 2)]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        folds = acv.Folds(np.array(sites)[order][:, None])
        together = acv.newton_step(fit, folds).params
        alone = [acv.newton_step(fit, folds[[row]]).params[0] for row in range(3)]
        assert_allclose(together, alone, rtol=1e-10)
