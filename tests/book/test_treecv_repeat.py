"""Repetitions over random orders: which cells there are, their summary, and how it is drawn."""

import numpy as np
import pandas as pd
import pytest
from acvbook.studies import treecv_tables

from acvlib import kfold, treecv
from acvlib.treecv import Examples, learners


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return Examples(X, X[:, 0] + rng.normal(size=300))


@pytest.fixture(scope="module")
def frame(data):
    return treecv_tables.repeat(make, data, [(CELLS, 4)], np.random.default_rng(5))


CELLS = treecv_tables.of_treecv([150, 300]) + treecv_tables.of_standard([150, 300], [120])


def make(n):
    return learners.lsqsgd(3, n**-0.5)


def test_a_repetition_is_the_cross_validation_of_the_first_rows_in_its_order(frame, data):
    [stream, *_] = np.random.default_rng(5).spawn(4)
    head = data.take(stream.permutation(300)[:150])
    first = frame[frame["repetition"] == 0].set_index(["method", "order", "k", "n"])["loss"]
    for name, method, k in [("treecv", treecv, 10), ("treecv", treecv, 0), ("standard", kfold, 5)]:
        again = method(make(150), head, k or 150, shuffle=False)
        assert first[name, "fixed", k, 150] == 100 * again.fold_losses.mean()
    assert first["treecv", "randomized", 10, 150] != first["treecv", "fixed", 10, 150]
    assert (frame[["seconds", "pass_seconds"]] > 0).all(axis=None)


def test_ratios_of_a_table_made_by_hand():
    papers = {
        "treecv.fixed.5": "30.0 ± 2.0",
        "treecv.fixed.100": "31.0 ± 0.5",
        "standard.fixed.5": "33.0 ± 1.0",
        "standard.fixed.100": "31.5 ± 1.0",
        "treecv.fixed.n": "30.6 ± 0.1",
    }
    table = treecv_tables.published(papers, n=581_012)
    assert table.loc[("treecv", "fixed", 0)].tolist() == [30.6, 0.1, 581_012]
    assert treecv_tables.spread_ratio(table, "treecv", "fixed") == 0.25
    assert treecv_tables.largest_gap(table) == 1.5  # |30 - 33| / 2; |31 - 31.5| / 1 is less
    assert treecv_tables.published(treecv_tables.printed(table), n=581_012).equals(table)


def test_level_and_spread_beside_the_published_ones():
    losses = pd.DataFrame(
        {("treecv", "fixed", 5): [30.0, 32.0], ("treecv", "fixed", 100): [31.0, 31.2]}
    )
    losses.columns = losses.columns.set_names(["method", "order", "k"])
    published = treecv_tables.published(
        {"none": None, "treecv.fixed.5": "30.0 ± 2.0", "treecv.fixed.100": "31.0 ± 0.1"}, n=4_000
    )
    table = treecv_tables.moments(losses)
    assert table["mean"].tolist() == pytest.approx([31.0, 31.1])
    assert treecv_tables.spread_factor(table, published) == pytest.approx(np.sqrt(2))
    missing = 100**2 * 0.3 * 0.7 * (1 / 2_000 - 1 / 4_000)  # 0.525: half of the rows are here
    gap = 1.0 / np.sqrt(2.0 / 2 + 4.0 / 100 + missing)
    assert treecv_tables.level_gap(table, published, 100, 2_000, 4_000) == pytest.approx(gap)


def test_costs_of_times_made_by_hand():
    times = {("treecv", "fixed", 5): 4, ("treecv", "fixed", 100): 8, ("treecv", "fixed", 0): 12}
    times |= {("treecv", "randomized", 0): 24, ("treecv", "randomized", 100): 20}
    times |= {("standard", "fixed", 5): 5, ("standard", "fixed", 100): 80}
    times |= {("standard", "randomized", 100): 160}
    keys = ("method", "order", "k")
    rows = [
        dict(zip(keys, cell, strict=True)) | {"n": 2_000, "seconds": s} for cell, s in times.items()
    ]
    for n, seconds in ((100, 1), (500, 48)):
        for order in ("fixed", "randomized"):
            rows.append(
                dict(zip(keys, ("standard", order, 0), strict=True)) | {"n": n, "seconds": seconds}
            )
    made = pd.DataFrame(rows).assign(loss=0.0, pass_seconds=1.0, repetition=0)
    [costs] = pd.DataFrame(treecv_tables.costs(made)).to_dict("records")
    assert costs["passes"] == pytest.approx(12 / np.log2(4_000))
    assert costs["standard_passes"] == pytest.approx(48 / np.log2(1_000))
    assert (costs["randomized"], costs["standard_randomized"]) == (2.0, 2.0)
    assert costs["speedup"] == 10.0
    assert (costs["loocv_fixed"], costs["loocv_randomized"]) == (0.25, 0.5)
    # 5, 100, 2000: equal steps of log k, of 4 each
    assert costs["log2k"] == pytest.approx(1.0, abs=1e-3)
    assert costs["standard_log2k"] == pytest.approx(1.0)  # of two points


def test_the_smallest_speedup_is_the_least_median_of_cells():
    """A single slow call moves a mean, and no median."""
    seconds = {"treecv": [1.0, 1.0, 90.0], "standard": [2.0, 3.0, 4.0]}
    rows = [
        {"method": method, "order": "fixed", "k": k, "n": 9, "repetition": i, "seconds": k * s}
        for method, values in seconds.items()
        for k in (5, 10)
        for i, s in enumerate(values)
    ]
    found = treecv_tables.smallest_speedup(pd.DataFrame(rows), np.random.default_rng(0))
    assert (found["value"], found["draws"]) == (2.0, 3)
    assert found["spread"][0] < 2.0 < found["spread"][1]


def test_order_ratio_is_a_median_over_k():
    ratios = {5: 0.5, 10: 0.8, 100: 3.0}
    cells = {("treecv", "fixed", k): 2.0 for k in ratios}
    cells |= {("treecv", "randomized", k): 2.0 * ratio for k, ratio in ratios.items()}
    assert treecv_tables.order_ratio(pd.DataFrame({"sd": pd.Series(cells)})) == 0.8
