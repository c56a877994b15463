"""Manifold-regularised models: sums over pairs, derivatives by autograd, deleted points."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from autograd import grad, hessian, jacobian
from numpy.testing import assert_allclose
from oracles.refit import refit
from scipy.sparse import csr_matrix

import acvlib as acv
from acvlib.models import GraphAffinity, ManifoldEnergy, RBFAffinity, SemiSupervised
from acvlib.models.semisupervised import energy

LOSSES = ("square", "logistic", "squared_hinge")


def problem(loss="square", p=40, s=16, seed=0, **gammas):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(p), rng.standard_normal((p, 2))])
    y = X @ [0.3, 1.0, -0.5] + 0.5 * rng.standard_normal(p)
    y = y if loss == "square" else np.where(y > 0, 1.0, -1.0)
    y[rng.choice(p, p - s, replace=False)] = np.nan
    return SemiSupervised(ManifoldEnergy(X, RBFAffinity(X, 2.0)), y, loss, **gammas)


def folds_of(model, k=4):
    return acv.folds.k_fold(model.n_sites, k, np.random.default_rng(1), model.observed)


def enumerated(model, params, weights):
    """Eq. 2 times s, pair by pair."""
    x, points = model.energy.features, model.energy.features
    f = x @ params
    affinity = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2) / 4.0)
    pairs = np.sum(np.outer(weights, weights) * affinity * (f[:, None] - f) ** 2)
    at = model.labelled
    losses = [weights[i] * model.heldout_loss(params, np.array([i]))[0] for i in at]
    value = model.gamma_s * sum(losses) / weights[at].sum()
    value = value + model.gamma_p * pairs / weights.sum() ** 2
    return len(at) * (value + model.gamma_i * params @ params)


@pytest.mark.parametrize("loss", LOSSES)
def test_objective_is_the_sum_over_all_pairs_and_closed_forms_are_autograds(loss):
    model, rng = problem(loss, gamma_s=0.7), np.random.default_rng(2)
    params, weights = 0.3 * rng.standard_normal(3), rng.random(model.n_sites)
    ones = np.ones(model.n_sites)
    value, gradient = model.derivatives.value_and_gradient(params, weights)
    expected = enumerated(model, params, weights)
    assert_allclose([value, model.objective(params, weights)], expected, rtol=1e-12)
    assert_allclose(gradient, grad(model.objective)(params, weights), rtol=1e-9, atol=1e-12)
    found = np.asarray(model.derivatives.hessian(params, weights))
    assert_allclose(found, hessian(model.objective)(params, weights), rtol=1e-9)
    cross = jacobian(lambda w: grad(model.objective)(params, w))(ones)
    folds = acv.folds.Folds([np.array([i]) for i in range(model.n_sites)])
    assert_allclose(model.derivatives.cross(params, folds), -cross.T, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_exact_is_deleting_points_and_refitting(loss):
    model = problem(loss)
    folds = folds_of(model)
    found = acv.exact(acv.fit(model), folds, tolerance=1e-9)
    for params, fold in zip(found.params, folds, strict=True):
        kept = np.setdiff1d(np.arange(model.n_sites), fold)
        x = model.energy.features[kept]
        without = replace(model, energy=ManifoldEnergy(x, RBFAffinity(x, 2.0)), y=model.y[kept])
        assert_allclose(params, acv.fit(without, tolerance=1e-9).params, atol=1e-8)
        by_scipy = refit(without.objective, np.zeros(3), np.ones(len(kept)))
        assert_allclose(params, by_scipy, atol=1e-5)


def test_theorem_3_1_misses_the_normalisers_own_term():
    model = problem("logistic", gamma_p=0.5, gamma_i=0.4)
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


def test_blocks_change_nothing(monkeypatch):
    monkeypatch.setattr(energy, "BLOCK", 200)
    points = np.random.default_rng(5).standard_normal((50, 3))
    alike, right = RBFAffinity(points, 1.5), np.random.default_rng(6).standard_normal((50, 2))
    whole, rows = alike.entries(np.arange(50)), np.array([3, 7, 8, 40])
    assert_allclose(alike.product(right), whole @ right, rtol=1e-12)
    ours = alike.product(right[rows], rows)
    assert_allclose(ours, whole[:, rows] @ right[rows], rtol=1e-12)


def test_a_sparse_graph_gives_what_its_matrix_gives():
    model, rng = problem(), np.random.default_rng(7)
    matrix = np.where(rng.random((40, 40)) < 0.2, 1.0, 0.0)
    matrix = matrix + matrix.T
    affinities = map(GraphAffinity, (matrix, csr_matrix(matrix)))
    energies = [ManifoldEnergy(model.energy.features, each) for each in affinities]
    dense, sparse = (replace(model, energy=energy) for energy in energies)
    folds = folds_of(model)
    results = [acv.frozen_newton(acv.fit(m), folds).params for m in (dense, sparse)]
    assert_allclose(*results, rtol=1e-9)


@pytest.mark.parametrize("kept", [0, 2**20])
def test_threads_share_an_energy(kept, monkeypatch):
    """Its sums of folds are forgotten now and then, while other threads use them."""
    monkeypatch.setattr(energy, "KEPT", kept)
    model = problem()
    shared = ManifoldEnergy(model.energy.features, model.energy.affinity)
    folds = [np.array([i, i + 1]) for i in range(30)] * 10
    expected = [model.energy.left_out(fold).linear for fold in folds]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda fold: shared.left_out(fold).linear, folds))
    assert_allclose(found, expected, rtol=1e-12)
    assert len(shared._kept) <= max(1, kept)


def test_without_any_ridge_what_is_not_determined_is_named():
    model = problem(gamma_p=0.0, gamma_i=0.0)
    twice = model.energy.features[:, [0, 1, 1]]
    with pytest.raises(ValueError, match="not determined in some direction"):
        replace(model, energy=ManifoldEnergy(twice, RBFAffinity(twice, 1.0)))
    x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    energy = ManifoldEnergy(x, RBFAffinity(x, 1.0))
    separable = SemiSupervised(energy, np.sign(x[:, 0]), "logistic", 1.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="theta is infinite"):
        acv.fit(separable)
