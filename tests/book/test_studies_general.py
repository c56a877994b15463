"""The studies of tuning and of the number of states, on cases whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from acvbook.datasets import Libsvm
from acvbook.studies import general, general_rates, general_tables, state_counts, states
from acvbook.studies import state_models as models
from acvbook.studies.general import neighbour_affinity
from acvbook.studies.general_identities import not_quadratic
from numpy.testing import assert_allclose
from scipy import stats

import acvlib as acv
from acvlib.beyond.from_scratch import fit_restarts
from acvlib.models import GaussianHMM, RBFAffinity


def small(name="svmguide3", n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    classes = np.where(X[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)
    y = classes if name == "svmguide3" else X[:, 0] + 5.0
    return Libsvm(name, X, y, "simulated", ""), rng


def test_eq_11_is_exact_where_the_loss_is_linear_and_a_paired_discrepancy_a_t_statistic():
    """Of each rung on five folds, a square loss."""
    data, rng = small("abalone", n=200)
    model = general.semi_supervised(data, rng, labelled=0.3, gamma_p=1.0, gamma_i=0.3)
    results = general.every_rung(model, rng, 5)
    move = results["as_printed"].params - results["exact"].fit.params
    folds = results["exact"].folds
    features = model.energy.features
    curved = sum(((features[o] @ m) ** 2).sum() for o, m in zip(folds, move, strict=True))
    plain, exact = (np.concatenate(results[n].losses).mean() for n in ("as_printed", "exact"))
    linear = plain - curved / len(model.labelled)
    found = general.expansions(model, results).over_plugged["as_printed"]
    assert found == pytest.approx(abs((linear - exact) / (plain - exact)))
    exact, none = (results[name].fold_losses for name in ("exact", "no_adjustment"))
    table = general.agreement(model, results).join(general.discrepancies(results))
    row = table.loc["no_adjustment"]
    assert_allclose(row.paired, abs(stats.ttest_rel(none, exact).statistic))
    assert_allclose(row.in_se, abs((none - exact).mean()) / stats.sem(exact), rtol=0.05)


def test_choices_are_the_least_entries_and_their_regret_is_paired():
    pairs = [(0.1, 0.1), (0.1, 1.0), (1.0, 1.0)]
    index = pd.MultiIndex.from_tuples(pairs, names=["gamma_p", "gamma_i"])
    by_fold = pd.DataFrame([[2.0, 3.0, 4.0], [1.0, 1.0, 1.0], [9.0, 9.0, 9.0]], index)
    criteria = {"exact": by_fold.mean(axis=1), "as_printed": [1.0, 1.5, 2.0]}
    chosen = general_tables.chosen(pd.DataFrame(criteria, index), by_fold)
    assert chosen.loc["exact"].tolist() == [0.1, 1.0, 0.0, 0.0, 1.0]
    error = 1.0 / np.sqrt(3.0)  # of the differences 1, 2 and 3
    assert_allclose(chosen.loc["as_printed"].tolist(), [0.1, 0.1, 2.0, 2.0 / error, 0.0])


def test_identities_by_their_rates_and_eq_17_is_the_printed_step_with_another_normaliser():
    errors = not_quadratic([1e-3, 1e-6], 200).error
    assert_allclose(np.log10(errors.iloc[0] / errors.iloc[1]), 2.0, rtol=0.01)
    row = general_rates.errors(general_rates.pairwise(12, np.random.default_rng(0)), [[0, 1]])
    assert 0.0 < abs(row["eq_17"] - row["as_printed"]) < row["as_printed"]


def test_growth_is_that_of_n_squared_times_the_median_error():
    sizes = pd.Index([10, 20, 40], name="points")
    tables = [pd.DataFrame({"a": k / sizes, "b": k / sizes**2}, sizes) for k in (1.0, 2.0, 9.0)]
    found = general_rates.growth(tables, np.random.default_rng(0))
    assert_allclose(found.times, [4.0, 1.0])
    assert_allclose(found[["low", "high"]].T, [[4.0, 1.0]] * 2)


def test_a_tenth_is_labelled_and_all_ways_of_table_1_give_the_same_exact_loss():
    data, rng = small("abalone")
    model = general.semi_supervised(data, rng)
    assert len(model.labelled) == 12
    assert_allclose([abs(model.energy.features).max(), model.energy.features[:, -1].min()], 1.0)
    scaled = (data.y - data.y.mean()) / data.y.std()
    assert_allclose(model.y[model.labelled], scaled[model.labelled])
    data, rng = small()
    model = general.semi_supervised(data, rng)
    table = general_tables.table1(model, rng, {3: 3, 4: 2})
    assert table.index.tolist() == [(3, 0), (3, 1), (3, 2), (4, 0), (4, 1)]
    assert table.gap.max() < 1e-6
    assert general_tables.medians(table).calls.tolist() == [3, 2]
    one = general_tables.table1(model, rng, {4: 1}, patience=0.0)
    assert one.fits.tolist() == [2]  # a call, and two folds of four
    assert one.gap.max() < 1e-6


def test_in_one_leaf_neighbours_are_the_nearest_and_the_sum_is_that_of_all_pairs():
    points = np.random.default_rng(2).standard_normal((80, 2))
    graph = neighbour_affinity(points, 2.0, 79, np.random.default_rng(0)).matrix.toarray()
    whole = RBFAffinity(points, 2.0).entries(np.arange(80))
    off = ~np.eye(80, dtype=bool)
    assert np.ptp(graph[off] / whole[off]) < 1e-6
    assert_allclose(graph.sum(), whole.sum(), rtol=0.02)
    few = neighbour_affinity(points, 2.0, 3, np.random.default_rng(0), leaf=20).matrix
    assert (np.diff(few.indptr) >= 3).all()
    assert (few != few.T).nnz == 0


def test_emissions_are_as_far_apart_as_gaussians_and_drawn_with_their_moments(rng):
    """sum_x sqrt(p q) of neighbours is exp(-d^2 / 8) for counts and categories, too."""
    for d in (1.5, 2.5, 4.0):
        wanted = np.exp(-(d**2) / 8.0)
        rates = models.truth(models.Design("poisson", 3, d, 1, 9), rng).law
        assert_allclose(np.exp(-(np.diff(np.sqrt(rates)) ** 2) / 2.0), wanted)
        p = models.truth(models.Design("categorical", 4, d, 1, 9), rng).law
        assert_allclose(p.sum(axis=1), 1.0)
        assert_allclose(np.sqrt(p[:-1] * p[1:]).sum(axis=1), wanted, rtol=1e-9)
        means = models.truth(models.Design("gaussian", 2, d, 1, 9), rng).law
        assert_allclose(np.diff(means), d)
    rng = np.random.default_rng(1)
    for emission in models.EMISSIONS:
        truth = models.truth(models.Design(emission, 2, 4.0, 1, 9), rng)
        x = np.concatenate(truth.draw([400] * 50, rng))
        transition = np.diff(truth.transition, prepend=0.0, axis=1)
        share = transition[1, 0] / (transition[0, 1] + transition[1, 0])
        mean = truth.law if truth.law.ndim == 1 else truth.law @ np.arange(6)
        assert_allclose(x.mean(), share * mean[0] + (1 - share) * mean[1], atol=0.15)


def test_a_row_is_what_the_library_says():
    """Totals of both rungs against a call of each method; one-standard-error by compare_models."""
    every = models.designs((1, 2), (4.0,), (10,), (200,))[:2]
    rows = [row for d in every for n in (0, 1) for row in state_counts.study(d, (1, 2), n, 7)]
    design = models.Design(**{f: rows[-3][f] for f in models.Design._fields})
    assert design == models.Design("gaussian", 2, 4.0, 10, 200)
    rng = np.random.default_rng([7, 0, 0, 20, 40, 100, 2000])
    law = models.truth(design, rng)
    x = law.draw([20] * 10, rng)
    law.draw([500] * 20, rng)
    seeds = rng.integers(2**31, size=2)
    results = {}
    for k in (1, 2):
        model = GaussianHMM(x, k, sites="steps")
        row = next(r for r in rows[-4:-2] if r["candidate"] == k)
        start = fit_restarts(model, 5, np.random.default_rng(seeds[1])).fit
        folds = acv.folds.k_fold(200, 10, np.random.default_rng(seeds[0]))
        exact = acv.exact(start, folds)
        assert_allclose(row["within_exact"], exact.fold_totals, rtol=1e-5)
        newton = acv.newton_step(start, folds)
        assert_allclose(row["within_newton"], newton.fold_totals, rtol=1e-8)
        results[k] = exact
    table = acv.compare_models(results)
    totals = np.stack([r["within_exact"] for r in rows[-4:-2]])
    best, simplest = states.chosen(totals, rows[-3]["sizes_within"])
    assert best + 1 == table.index[0]
    close = table[(table.elpd_diff <= table.dse) | (table["rank"] == 0)]
    assert simplest + 1 == min(close.index)


def test_criteria_count_parameters_and_frames_and_the_future_comes_next_in_each_sequence(rng):
    model = GaussianHMM([rng.standard_normal(30), rng.standard_normal(20)], 2)
    fit = acv.fit(model)
    found = state_counts.information(model, fit)
    doubled = 2 * model.sequence_losses(fit.params).sum()
    assert found["aic"] == pytest.approx(doubled + 2 * (1 + 2 + 4))
    assert found["bic"] == pytest.approx(doubled + 7 * np.log(50))
    assert found["icl"] > found["bic"]
    model = GaussianHMM([np.arange(20.0), np.arange(20.0)], 1)
    folds = state_counts.future(model)
    assert list(folds[0]) == [*range(10, 20), *range(30, 40)]
    assert [list(s) for s in folds.scored[:2]] == [[10, 11, 30, 31], [12, 13, 32, 33]]


def test_intervals():
    mean, *found = states.interval(np.arange(50) < 10)
    low, high = stats.beta.ppf([0.025, 0.975], [10, 11], [41, 40])  # Clopper and Pearson's is wider
    assert low - 0.01 < found[0] < 0.2 == mean < found[1] < high + 0.01
    assert states.interval([True] * 30)[2] == 1.0
    assert states.interval([1.0, 3.0]) == pytest.approx((2.0, 2 - 1.96, 2 + 1.96))
