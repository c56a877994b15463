"""The studies of the genomics chapter, on few genes."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from acvbook import datasets
from acvbook.studies import genomics
from numpy.testing import assert_allclose

import acvlib as acv


@pytest.fixture(scope="module")
def data():
    return datasets.simulate_genomics(np.random.default_rng(0), 60, 3)


@pytest.fixture(scope="module")
def expression(data):
    return data.replicates(np.random.default_rng(1))


@pytest.fixture(scope="module")
def run(data, expression):
    model = genomics.clustering(expression[data.train], data.hours, 5, 3)
    return genomics.every_rung(model, acv.fit(model), {k: genomics.left_out(k) for k in (1, 2)})


def test_balanced_folds_take_every_combination_once_and_every_time_equally_often():
    for size, n_classes in ((1, 1), (2, 3), (3, 5)):
        parts = [genomics.balanced(size, number) for number in range(n_classes)]
        every = sorted(combinations(range(7), size))
        assert sorted(map(tuple, np.concatenate(parts))) == every
        assert sorted(map(tuple, genomics.left_out(size))) == every
        for part in parts:
            assert (np.bincount(part.ravel(), minlength=7) == size).all()


def test_pooled_errors_and_held_out_losses_agree(run, data, expression):
    table = genomics.error_table(run, expression[data.test])
    for (name, size), result in run.results.items():
        pooled = np.mean([losses.mean() for losses in result.losses])
        assert_allclose(table["mean"][name, size], pooled, rtol=1e-10)
    assert_allclose(table["mean"]["train", 1], table["mean"]["train", 2], rtol=1e-10)
    assert ((table.low < table["median"]) & (table["median"] < table.high)).all()
    errors = run.model.errors_on(expression[data.test], run.fit.params)[:, :7]
    assert_allclose(table["square"]["test", 1], (errors**2).mean())


def test_the_ladder_is_of_distances_from_exact(run):
    found = genomics.ladder(run)
    assert found["exact"] == 0.0
    whole = acv.theta_errors(run.results["exact", 1], run.results["ij", 1])
    assert found["infinitesimal_jackknife"] <= whole.max()
    assert found["infinitesimal_jackknife"] < found["no_adjustment"]
    assert 0.0 <= found["frozen_beats_ij"] <= 1.0 < 1.0 + found["in_refits"]


def table_of_errors():
    """Two rebuilds, three df, two sizes, where train falls and the others are least at 5."""
    names = ["rebuild", "df", "left_out"]
    index = pd.MultiIndex.from_product([[0, 1], [4, 5, 6], [1, 2]], names=names)
    train = np.repeat([0.5, 0.4, 0.3] * 2, 2)
    bend = np.repeat([0.2, 0.1, 0.4] * 2, 2)
    columns = {"train": train, "ij": train + bend, "test": train + bend}
    return pd.DataFrame(columns | {"exact": train + 1.5 * bend}, index=index)


def test_nearness_of_an_estimate_that_is_the_test_error():
    near = genomics.nearness(table_of_errors())
    known = {"gap": 1.0, "none_gap": 3.0, "to_test": 0.0, "none_to_test": 1.0, "none_better": 0.0}
    known |= dict.fromkeys(["below_exact", "better", "none_below_exact"], 1.0)
    assert_allclose(near[[*known]].astype(float) - [*known.values()], 0.0, atol=1e-12)


def test_levels_and_correlations_against_numbers_that_are_known():
    errors = table_of_errors()
    published = errors.loc[0]
    assert_allclose(genomics.levels(1.1 * errors, published, "ij", "ij"), 1.1)
    assert_allclose(genomics.difference_correlations(errors, published, "exact", "ij"), 1.0)


def test_bfgs_stops_near_the_optimum_and_newton_at_it(data, run):
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
