"""The studies of chapter 9 on small cases whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from acvbook.datasets import Libsvm
from acvbook.studies import general, general_choice, general_timing
from acvbook.studies.general import neighbour_affinity
from numpy.testing import assert_allclose

from acvlib.models import RBFAffinity


def small(name="svmguide3", n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = (
        np.where(X[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)
        if name == "svmguide3"
        else X[:, 0] + 5.0
    )
    return Libsvm(name, X, y, "simulated", ""), rng


def test_a_tenth_is_labelled_and_regression_is_scaled():
    data, rng = small("abalone")
    model = general.semi_supervised(data, rng)
    assert len(model.labelled) == 12
    assert model.loss == "square"
    assert_allclose([abs(model.energy.features).max(), model.energy.features[:, -1].min()], 1.0)
    assert_allclose(
        model.y[model.labelled], ((data.y - data.y.mean()) / data.y.std())[model.labelled]
    )


def test_crossings_are_those_of_kept_labels_alone():
    data, rng = small(n=300)
    model = general.semi_supervised(data, rng, "squared_hinge", labelled=0.3, gamma_i=0.01)
    exact = general.every_rung(model, rng, 5)["exact"]
    moved = 0
    for params, fold in zip(exact.params, exact.folds, strict=True):
        for i in np.setdiff1d(model.labelled, fold):
            margins = [
                model.y[i] * model.energy.features[i] @ p for p in (exact.fit.params, params)
            ]
            moved += (margins[0] < 1.0) != (margins[1] < 1.0)
    assert moved > 0
    assert general.crossings(model, exact) == moved / 5


def test_eq_11_is_exact_where_the_loss_is_linear_in_the_parameters():
    data, rng = small("abalone", n=200)
    model = general.semi_supervised(data, rng, labelled=0.3, gamma_p=1.0, gamma_i=0.3)
    results = general.every_rung(model, rng, 5)
    table = general.expansions(model, results)
    assert set(table.index) == {"as_printed", "infinitesimal_jackknife", "frozen_newton"}
    move = results["as_printed"].params - results["exact"].fit.params
    curved = [
        ((model.energy.features[fold] @ m) ** 2).sum()
        for fold, m in zip(results["exact"].folds, move, strict=True)
    ]
    plain, exact = (np.concatenate(results[n].losses).mean() for n in ("as_printed", "exact"))
    linear = plain - sum(curved) / len(model.labelled)
    assert table.over_plugged["as_printed"] == pytest.approx(
        abs((linear - exact) / (plain - exact))
    )


def test_choices_are_the_least_entries():
    index = pd.MultiIndex.from_product([(0.1, 1.0), (0.1, 1.0, 10.0)], names=["gamma_p", "gamma_i"])
    table = pd.DataFrame(
        {
            "exact": [2.0, 1.0, 3.0, 3.0, 4.0, 4.0],
            "as_printed": [1.0, 1.5, 2.0, 2.0, 2.0, 2.0],
            "unconverged": 0,
        },
        index,
    )
    chosen = general_choice.chosen(table)
    assert chosen.loc["exact", ["gamma_p", "gamma_i", "regret", "same"]].tolist() == [0.1, 1, 0, 1]
    assert chosen.loc["as_printed", ["gamma_p", "gamma_i", "regret"]].tolist() == [0.1, 0.1, 1.0]
    assert (chosen.inside == 0.0).all()  # gamma_p has edges alone


def test_all_ways_of_table_1_give_the_same_exact_loss():
    data, rng = small()
    table = general_timing.table1(general.semi_supervised(data, rng), rng, (3, 4), calls=3)
    assert table.index.tolist() == [(t, call) for t in (3, 4) for call in range(3)]
    assert table.gap.max() < 1e-6
    assert (table[["cv", "acv", "shared"]] > 0).all(axis=None)
    assert_allclose(table.ratio, table.cv / table.acv)
    assert general_timing.medians(table).calls.tolist() == [3, 3]
    one = general_timing.table1(general.semi_supervised(data, rng), rng, (4,), patience=0.0)
    assert one.fits.tolist() == [2, 2]  # two calls, and two folds of four
    assert one.gap.max() < 1e-6
    assert general_timing.peak_gigabytes() > 0.01


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
