"""Genes clustered by their regressions: both stages, H and J by brute force, and the studies."""

from dataclasses import replace
from itertools import combinations

import autograd.numpy as anp
import numpy as np
import pandas as pd
import pytest
from acvbook import datasets
from acvbook.gene_clusters import GeneClusters
from acvbook.gene_clusters.derivatives import EmptyCluster
from acvbook.gene_clusters.regression import spline_basis
from acvbook.studies import genomics
from autograd import grad, jacobian
from numpy.testing import assert_allclose
from oracles.wrappers import ByAutograd
from scipy.stats import multivariate_normal

import acvlib as acv

HOURS = np.array([0.0, 3, 6, 9, 12, 18, 24, 36, 60])
FOLDS = [np.array(fold) for fold in ([0], [2], [4], [1, 3], [0, 5])]


def expression(n_genes=9, seed=0, n_replicates=3):
    """Three shapes of curves, replicates about them, and an offset for each gene."""
    rng = np.random.default_rng(seed)
    shapes = np.array([np.sin(HOURS / 20), np.cos(HOURS / 12), HOURS / 40])
    curves = shapes[np.arange(n_genes) % 3] * rng.uniform(1.0, 2.0, (n_genes, 1))
    curves = curves + rng.normal(8.0, 2.0, (n_genes, 1))
    return curves[..., None] + 0.3 * rng.standard_normal((n_genes, len(HOURS), n_replicates))


@pytest.fixture(scope="module")
def fit():
    return acv.fit(GeneClusters(expression(), spline_basis(HOURS, 4, 1), 3, concentration=1.5))


@pytest.fixture(scope="module")
def model(fit):
    return fit.model


def test_stage_one_is_the_gradient_of_its_divergence_and_clustering_a_gaussian_mixture(model, fit):
    """KL written out as in the docstring of `gene_regression`, over single observations.

    Up to constants of the genes, F is minus the log of scipy's densities, plus the priors. H and J
    equal autograd's.
    """
    rng = np.random.default_rng(3)
    params = fit.params + 0.05 * rng.standard_normal(len(fit.params))
    weights = rng.uniform(0.4, 1.2, model.n_sites)
    point = params, weights
    genes, one = model.split(params)[0], model.stage_one

    def divergence(flat):
        regression = one.unpack(flat)
        total = 0.0
        for gene, y in enumerate(model.expression):
            tau, lower = regression.precision[gene], regression.cholesky[gene]
            covariance = anp.linalg.inv(anp.dot(lower, lower.T))
            for t, x in enumerate(model.basis):
                squares = anp.sum((y[t] - anp.dot(x, regression.coefficients[gene])) ** 2)
                expected = squares + 3 * anp.dot(x, anp.dot(covariance, x))
                total = total + weights[t] * (0.5 * tau * expected - 1.5 * anp.log(tau))
            total = total - 0.5 * anp.linalg.slogdet(covariance)[1]
        return total

    assert_allclose(one.residual(genes, weights), grad(divergence)(genes), rtol=1e-9, atol=1e-9)
    genes, clusters = model.split(params)
    regression, two = model.stage_one.unpack(genes), model.stage_two
    centroids, log_shares = two.unpack(clusters)
    inverse = np.linalg.inv(regression.cholesky @ regression.cholesky.swapaxes(1, 2))
    prior = 0.5 * two.centroid_precision * (centroids**2).sum() - 0.5 * log_shares.sum()
    total, members = prior, []
    for beta, covariance in zip(regression.coefficients, inverse, strict=True):
        spread = two.transform @ (covariance + 0.1 * np.eye(len(covariance))) @ two.transform.T
        seen, pairs = two.transform @ beta, zip(log_shares, centroids, strict=True)
        joint = [s + multivariate_normal(c, spread).logpdf(seen) for s, c in pairs]
        constant = -0.5 * np.linalg.slogdet(2 * np.pi * spread)[1]
        total -= np.logaddexp.reduce(joint) - constant
        members.append(np.exp(joint - np.logaddexp.reduce(joint)))
    positions = two.positions(regression)
    assert_allclose(two.objective(clusters, positions), total, rtol=1e-10)
    assert_allclose(two.memberships(clusters, positions), members, atol=1e-10)
    dense, expected = (jacobian(model.residual, place)(*point) for place in (0, 1))
    matrix = model.derivatives.hessian(*point)
    assert_allclose(model.derivatives.cross_matrix(*point), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(np.eye(len(dense)) @ matrix, dense, rtol=1e-9, atol=1e-9)
    assert_allclose(dense[3] @ matrix, dense[3] @ dense, rtol=1e-9, atol=1e-9)


def test_every_fit_and_refit_solves_the_equation_and_a_cluster_that_empties_is_named(model, fit):
    assert fit.grad_norm <= 1e-8
    assert fit.newton_decrement <= 1e-8
    result = acv.exact(fit, FOLDS)
    assert result.diagnostics["converged"].all()
    each = zip(result.params, FOLDS, result.diagnostics["residual"], strict=True)
    for params, fold, reported in each:
        norm = np.linalg.norm(model.residual(params, acv.folds.weights(model.n_sites, fold)))
        assert norm == reported <= 1e-8
    emptied = fit.params.copy()
    emptied[-1] = np.log(1e-4)
    with pytest.raises(EmptyCluster, match="cluster 2 with .* of 9 genes: take fewer .* than 3"):
        model.check_optimum(emptied)


@pytest.mark.parametrize("folds", [FOLDS[:2], FOLDS * 2], ids=["more sites", "more folds"])
def test_the_sparse_jackknife_equals_the_dense_one(model, fit, folds):
    fits = [fit, replace(fit, model=ByAutograd(model))]
    results = [acv.infinitesimal_jackknife(each, folds) for each in fits]
    assert_allclose(results[0].params, results[1].params, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("df", [4, 5, 6, 7])
def test_the_spline_reproduces_cubics_and_levels(df):
    basis = spline_basis(HOURS, df, 2)
    early = np.arange(9) < 7
    assert_allclose(basis.sum(axis=1), 1.0)
    assert (basis[early, df:] == 0).all()
    assert (basis[~early, df:] == np.eye(2)).all()
    for power in range(4):
        curve = np.where(early, (HOURS / 24) ** power, 0.0)
        assert_allclose(basis @ np.linalg.lstsq(basis, curve, rcond=None)[0], curve, atol=1e-10)


def test_balanced_folds_take_every_combination_once_and_every_time_equally_often():
    for size, n_classes in ((1, 1), (2, 3), (3, 5)):
        parts = [genomics.balanced(size, number) for number in range(n_classes)]
        every = sorted(combinations(range(7), size))
        assert sorted(map(tuple, np.concatenate(parts))) == every
        assert sorted(map(tuple, genomics.left_out(size))) == every
        for part in parts:
            assert (np.bincount(part.ravel(), minlength=7) == size).all()


def test_pooled_errors_are_held_out_losses_the_ladder_of_distances_and_bfgs_stops_near():
    data = datasets.simulate_genomics(np.random.default_rng(0), 60, 3)
    replicates = data.replicates(np.random.default_rng(1))
    model = genomics.clustering(replicates[data.train], data.hours, 5, 3)
    run = genomics.every_rung(model, acv.fit(model), {k: genomics.left_out(k) for k in (1, 2)})
    table = genomics.error_table(run, replicates[data.test])
    for (name, size), result in run.results.items():
        pooled = np.mean([losses.mean() for losses in result.losses])
        assert_allclose(table["mean"][name, size], pooled, rtol=1e-10)
    assert_allclose(table["mean"]["train", 1], table["mean"]["train", 2], rtol=1e-10)
    assert ((table.low < table["median"]) & (table["median"] < table.high)).all()
    errors = run.model.errors_on(replicates[data.test], run.fit.params)[:, :7]
    assert_allclose(table["square"]["test", 1], (errors**2).mean())
    found = genomics.ladder(run)
    assert found["exact"] == 0.0
    whole = acv.theta_errors(run.results["exact", 1], run.results["ij", 1])
    assert found["infinitesimal_jackknife"] <= whole.max()
    assert found["infinitesimal_jackknife"] < found["no_adjustment"]
    assert 0.0 <= found["frozen_beats_ij"] <= 1.0 < 1.0 + found["in_refits"]
    start = run.model.initial_params(np.random.default_rng(0))
    params, gradient = genomics.by_bfgs(run.model, start, np.ones(14))
    n_clusters = len(run.model.split(params)[1])
    left = run.model.residual(params, np.ones(14))
    assert_allclose(np.linalg.norm(left[-n_clusters:]) / len(run.model.expression), gradient)
    assert_allclose(left[:-n_clusters], 0.0, atol=1e-8)
    model = next(genomics.rebuilt_models(data, 4, 3, 1, np.random.default_rng(2)))
    found = genomics.with_bfgs(model, np.random.default_rng(0), genomics.left_out(1)[:2])
    assert found["newton_gradient"] < 1e-9 < found["bfgs_gradient"]
    assert 0 < found["newton"] < found["newton_none"]


def test_nearness_levels_and_correlations_against_numbers_that_are_known():
    """Two rebuilds, three df, two sizes, where train falls and the others are least at 5."""
    names = ["rebuild", "df", "left_out"]
    index = pd.MultiIndex.from_product([[0, 1], [4, 5, 6], [1, 2]], names=names)
    train = np.repeat([0.5, 0.4, 0.3] * 2, 2)
    bend = np.repeat([0.2, 0.1, 0.4] * 2, 2)
    columns = {"train": train, "ij": train + bend, "test": train + bend}
    errors = pd.DataFrame(columns | {"exact": train + 1.5 * bend}, index=index)
    near = genomics.nearness(errors)
    known = {"gap": 1.0, "none_gap": 3.0, "to_test": 0.0, "none_to_test": 1.0, "none_better": 0.0}
    known |= dict.fromkeys(["below_exact", "better", "none_below_exact"], 1.0)
    assert_allclose(near[[*known]].astype(float) - [*known.values()], 0.0, atol=1e-12)
    published = errors.loc[0]
    assert_allclose(genomics.levels(1.1 * errors, published, "ij", "ij"), 1.1)
    assert_allclose(genomics.difference_correlations(errors, published, "exact", "ij"), 1.0)
