"""Pairwise linear models: sums over pairs, derivatives by autograd, folds by deleting points."""

from dataclasses import replace

import numpy as np
import pytest
from autograd import grad, hessian, jacobian
from numpy.testing import assert_allclose

import acvlib as acv
from acvlib.models import PairwiseLinear

LOSSES = ("ranking", "contrastive")


def problem(loss, p=30, seed=0, copies=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((p, 3))
    y = X @ [1.0, -0.5, 0.3] + 0.3 * rng.standard_normal(p)
    y = y if loss == "ranking" else np.digitize(y, [-0.5, 0.5])
    return PairwiseLinear(np.tile(X, (copies, 1)), np.tile(y, copies), loss, gamma_i=0.05)


def enumerated(model, params, weights):
    """Eq. 7 with weights, times p, pair by pair."""
    total = 0.0
    for i in range(model.n_sites):
        for j in range(model.n_sites):
            u, (a, b) = (model.X[i] - model.X[j]) @ params, model.y[[i, j]]
            if model.convex:
                loss = 0.0 if a == b else np.log1p(np.exp(-np.sign(a - b) * u))
            else:
                loss = u**2 if a == b else max(1.0 - np.sqrt(u**2 + 0.01), 0.0) ** 2
            total += weights[i] * weights[j] * loss
    return model.n_sites * (total / weights.sum() ** 2 + model.gamma_i * params @ params)


@pytest.mark.parametrize("loss", LOSSES)
def test_objective_is_the_sum_over_all_pairs_and_closed_forms_are_autograds(loss):
    model, rng = problem(loss), np.random.default_rng(1)
    params, weights = rng.standard_normal(3), rng.random(30)
    weights[4] = 0.0
    value, gradient = model.derivatives.value_and_gradient(params, weights)
    expected = enumerated(model, params, weights)
    assert_allclose([value, model.objective(params, weights)], expected, rtol=1e-12)
    assert_allclose(gradient, grad(model.objective)(params, weights), rtol=1e-9)
    found = np.asarray(model.derivatives.hessian(params, weights))
    cross = model.derivatives.cross_matrix(params, weights)
    assert_allclose(found, hessian(model.objective)(params, weights), rtol=1e-8)
    expected = jacobian(lambda w: grad(model.objective)(params, w))(weights)
    assert_allclose(cross, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_exact_is_deleting_points_and_refitting(loss):
    model = problem(loss)
    folds, full = acv.folds.k_fold(30, 5), acv.fit(model)
    for params, fold in zip(acv.exact(full, folds).params, folds, strict=True):
        kept = np.setdiff1d(np.arange(30), fold)
        without = replace(model, X=model.X[kept], y=model.y[kept])
        assert_allclose(params, acv.fit(without, start=full.params).params, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "order"), [(acv.as_printed, 1), (acv.infinitesimal_jackknife, 2)]
)
def test_halving_the_share_halves_the_printed_error_and_quarters_the_jackknifes(method, order):
    errors = []
    for copies in (6, 12):
        model, fold = problem("ranking", copies=copies), [np.arange(5)]
        full = acv.fit(model, tolerance=1e-10)
        exact = acv.exact(full, fold, tolerance=1e-10)
        errors.append(np.linalg.norm(method(full, fold).params - exact.params))
    assert_allclose(errors[0] / errors[1], 2**order, rtol=0.15)


@pytest.mark.parametrize("loss", LOSSES)
def test_pairs_with_points_that_are_omitted_and_not_scored_are_no_losses(loss):
    model = problem(loss)
    folds = acv.Folds([np.arange(8), np.arange(9, 20)], [np.array([5, 2, 3]), np.array([11, 10])])
    result = acv.exact(acv.fit(model), folds)
    for params, losses, scored in zip(result.params, result.losses, folds.scored, strict=True):
        assert_allclose(losses, model.heldout_loss(params, scored), rtol=1e-12)


def test_heldout_losses_average_to_equation_8():
    model, fold = problem("contrastive"), np.array([1, 4, 9])
    params = np.array([0.2, 0.1, -0.4])
    pairs = [np.array([j, k]) for j in fold for k in fold if j != k]
    total = sum(model.pair_losses(params, pair)[0, 1] for pair in pairs)
    # A point with itself has loss 0: same class, distance 0.
    assert_allclose(model.heldout_loss(params, fold).mean(), total / 9.0)
