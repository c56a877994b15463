"""Pairwise and manifold-regularised models: sums over pairs, autograd, deleted points."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from autograd import grad, hessian, jacobian
from numpy.testing import assert_allclose
from oracles.refit import refit
from oracles.wrappers import raises
from scipy.sparse import csr_matrix

import acvlib as acv
from acvlib.models import GraphAffinity, ManifoldEnergy, PairwiseLinear, RBFAffinity, SemiSupervised
from acvlib.models.semisupervised import energy

OF_PAIRS = ("ranking", "contrastive")
ORDERS = [(acv.as_printed, 1), (acv.infinitesimal_jackknife, 2)]
by_loss = pytest.mark.parametrize("loss", [*OF_PAIRS, "square", "logistic", "squared_hinge"])


def of_pairs(loss, p=30, copies=1):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((p, 3))
    y = X @ [1.0, -0.5, 0.3] + 0.3 * rng.standard_normal(p)
    y = y if loss == "ranking" else np.digitize(y, [-0.5, 0.5])
    return PairwiseLinear(np.tile(X, (copies, 1)), np.tile(y, copies), loss, gamma_i=0.05)


def half_labelled(loss="square", p=40, s=16, **gammas):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(p), rng.standard_normal((p, 2))])
    y = X @ [0.3, 1.0, -0.5] + 0.5 * rng.standard_normal(p)
    y = y if loss == "square" else np.where(y > 0, 1.0, -1.0)
    y[rng.choice(p, p - s, replace=False)] = np.nan
    return SemiSupervised(ManifoldEnergy(X, RBFAffinity(X, 2.0)), y, loss, **gammas)


def problem(loss):
    return of_pairs(loss) if loss in OF_PAIRS else half_labelled(loss, gamma_s=0.7)


def folds_of(model, k=4):
    return acv.folds.k_fold(model.n_sites, k, np.random.default_rng(1), model.observed)


def enumerated(model, params, weights):
    """Eq. 7 with weights, times p, or Eq. 2 times s, pair by pair."""
    if isinstance(model, SemiSupervised):
        x, at = model.energy.features, model.labelled
        f = x @ params
        affinity = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 4.0)
        pairs = np.sum(np.outer(weights, weights) * affinity * (f[:, None] - f) ** 2)
        losses = [weights[i] * model.heldout_loss(params, np.array([i]))[0] for i in at]
        value = model.gamma_s * sum(losses) / weights[at].sum()
        value = value + model.gamma_p * pairs / weights.sum() ** 2
        return len(at) * (value + model.gamma_i * params @ params)
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


@by_loss
def test_objective_is_the_sum_over_all_pairs_and_closed_forms_are_autograds(loss):
    model, rng = problem(loss), np.random.default_rng(1)
    params, weights = 0.7 * rng.standard_normal(3), rng.random(model.n_sites)
    weights[4] = 0.0
    value, gradient = model.derivatives.value_and_gradient(params, weights)
    expected = enumerated(model, params, weights)
    assert_allclose([value, model.objective(params, weights)], expected, rtol=1e-12)
    assert_allclose(gradient, grad(model.objective)(params, weights), rtol=1e-9, atol=1e-12)
    found = np.asarray(model.derivatives.hessian(params, weights))
    assert_allclose(found, hessian(model.objective)(params, weights), rtol=1e-9)
    cross = jacobian(lambda w: grad(model.objective)(params, w))
    found = model.derivatives.cross(params, acv.folds.leave_one_out(model.n_sites))
    assert_allclose(found, -cross(np.ones(model.n_sites)).T, rtol=1e-9, atol=1e-10)
    if loss in OF_PAIRS:
        found = model.derivatives.cross_matrix(params, weights)
        assert_allclose(found, cross(weights), rtol=1e-9, atol=1e-10)


def without(model, fold):
    kept = np.setdiff1d(np.arange(model.n_sites), fold)
    if isinstance(model, PairwiseLinear):
        return replace(model, X=model.X[kept], y=model.y[kept])
    x = model.energy.features[kept]
    return replace(model, energy=ManifoldEnergy(x, RBFAffinity(x, 2.0)), y=model.y[kept])


@by_loss
def test_exact_is_deleting_points_and_refitting(loss):
    model = problem(loss)
    folds, full = folds_of(model), acv.fit(model)
    found = acv.exact(full, folds, tolerance=1e-9)
    for params, fold in zip(found.params, folds, strict=True):
        left = without(model, fold)
        assert_allclose(params, acv.fit(left, full.params, tolerance=1e-9).params, atol=1e-8)
        by_scipy = refit(left.objective, full.params, np.ones(left.n_sites))
        assert_allclose(params, by_scipy, atol=1e-5)


def test_theorem_3_1_misses_the_normalisers_own_term():
    model = half_labelled("logistic", gamma_p=0.5, gamma_i=0.4)
    full, folds = acv.fit(model, tolerance=1e-10), folds_of(model)
    m, s, p = len(folds[0]), len(model.labelled), model.n_sites
    ones, pointwise = np.ones(p), replace(model, gamma_p=0.0, gamma_i=0.0)
    slope_s = pointwise.derivatives.value_and_gradient(full.params, ones)[1]
    slope_p = 2.0 * s * model.gamma_p * model.energy.full @ full.params / p**2
    metric = np.asarray(full.metric)
    own = np.linalg.solve(metric, m / s * slope_s + 2.0 * m / p * slope_p)
    printed = acv.as_printed(full, folds[:1]).params[0]
    # The printed normalisers are those of the fold, in place of those at w = 1.
    sums = [each[0] for each in model.derivatives._fold_sums(full.params, folds[:1])]
    at_one = np.linalg.solve(metric, sums[0] / s + sums[1] / p**2)
    at_fold = np.linalg.solve(metric, sums[0] / (s - m) + sums[1] / (p - m) ** 2)
    jackknife = acv.infinitesimal_jackknife(full, folds[:1]).params[0]
    assert_allclose(printed - jackknife, at_fold - at_one + own, rtol=1e-6, atol=1e-12)


def test_sparse_graphs_and_blocks_give_what_whole_matrices_give(monkeypatch):
    model, rng = half_labelled(), np.random.default_rng(7)
    matrix = np.where(rng.random((40, 40)) < 0.2, 1.0, 0.0)
    matrix = matrix + matrix.T
    affinities = map(GraphAffinity, (matrix, csr_matrix(matrix)))
    energies = [ManifoldEnergy(model.energy.features, each) for each in affinities]
    dense, sparse = (replace(model, energy=energy) for energy in energies)
    folds = folds_of(model)
    results = [acv.frozen_newton(acv.fit(m), folds).params for m in (dense, sparse)]
    assert_allclose(*results, rtol=1e-9)
    monkeypatch.setattr(energy, "BLOCK", 200)
    points = np.random.default_rng(5).standard_normal((50, 3))
    alike, right = RBFAffinity(points, 1.5), np.random.default_rng(6).standard_normal((50, 2))
    whole, rows = alike.entries(np.arange(50)), np.array([3, 7, 8, 40])
    assert_allclose(alike.product(right), whole @ right, rtol=1e-12)
    assert_allclose(alike.product(right[rows], rows), whole[:, rows] @ right[rows], rtol=1e-12)


@pytest.mark.parametrize("kept", [0, 2**20])
def test_threads_share_an_energy(kept, monkeypatch):
    """Its sums of folds are forgotten now and then, while other threads use them."""
    monkeypatch.setattr(energy, "KEPT", kept)
    model = half_labelled()
    shared = ManifoldEnergy(model.energy.features, model.energy.affinity)
    folds = [np.array([i, i + 1]) for i in range(30)] * 10
    expected = [model.energy.left_out(fold).linear for fold in folds]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda fold: shared.left_out(fold).linear, folds))
    assert_allclose(found, expected, rtol=1e-12)
    assert len(shared._kept) <= max(1, kept)


def test_without_any_ridge_what_is_not_determined_is_named():
    model = half_labelled(gamma_p=0.0, gamma_i=0.0)
    twice = model.energy.features[:, [0, 1, 1]]
    with pytest.raises(ValueError, match="not determined in some direction"):
        replace(model, energy=ManifoldEnergy(twice, RBFAffinity(twice, 1.0)))
    x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    energy = ManifoldEnergy(x, RBFAffinity(x, 1.0))
    separable = SemiSupervised(energy, np.sign(x[:, 0]), "logistic", 1.0, 0.0, 0.0)
    raises("theta is infinite", acv.fit, separable)


@pytest.mark.parametrize(("method", "order"), ORDERS)
def test_halving_the_share_halves_the_printed_error_and_quarters_the_jackknifes(method, order):
    errors = []
    for copies in (6, 12):
        model, fold = of_pairs("ranking", copies=copies), [np.arange(5)]
        full = acv.fit(model, tolerance=1e-10)
        exact = acv.exact(full, fold, tolerance=1e-10)
        errors.append(np.linalg.norm(method(full, fold).params - exact.params))
    assert_allclose(errors[0] / errors[1], 2**order, rtol=0.15)


@pytest.mark.parametrize("loss", OF_PAIRS)
def test_pairs_with_points_that_are_omitted_and_not_scored_are_no_losses(loss):
    model = of_pairs(loss)
    folds = acv.Folds([np.arange(8), np.arange(9, 20)], [np.array([5, 2, 3]), np.array([11, 10])])
    result = acv.exact(acv.fit(model), folds)
    for params, losses, scored in zip(result.params, result.losses, folds.scored, strict=True):
        assert_allclose(losses, model.heldout_loss(params, scored), rtol=1e-12)


def test_heldout_losses_average_to_equation_8():
    model, fold = of_pairs("contrastive"), np.array([1, 4, 9])
    params = np.array([0.2, 0.1, -0.4])
    pairs = [np.array([j, k]) for j in fold for k in fold if j != k]
    total = sum(model.pair_losses(params, pair)[0, 1] for pair in pairs)
    # A point with itself has loss 0: same class, distance 0.
    assert_allclose(model.heldout_loss(params, fold).mean(), total / 9.0)
