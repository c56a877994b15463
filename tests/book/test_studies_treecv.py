"""The studies of TreeCV: repetitions over random orders, and what its theorems speak of."""

import numpy as np
import pandas as pd
import pytest
from acvbook.studies import phase, standard_errors, treecv_tables
from acvbook.studies import treecv_theorems as theorems

from acvlib.treecv import Examples, kfold, learners, treecv


def test_a_repetition_is_the_cross_validation_of_the_first_rows_in_its_order():
    def make(n):
        return learners.lsqsgd(3, n**-0.5)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    data = Examples(X, X[:, 0] + rng.normal(size=300))
    cells = treecv_tables.of_treecv([150, 300]) + treecv_tables.of_standard([150, 300], [120])
    frame = treecv_tables.repeat(make, data, [(cells, 4)], np.random.default_rng(5))
    [stream, *_] = np.random.default_rng(5).spawn(4)
    head = data.take(stream.permutation(300)[:150])
    first = frame[frame["repetition"] == 0].set_index(["method", "order", "k", "n"])["loss"]
    for name, method, k in [("treecv", treecv, 10), ("treecv", treecv, 0), ("standard", kfold, 5)]:
        again = method(make(150), head, k or 150, shuffle=False)
        assert first[name, "fixed", k, 150] == 100 * again.fold_losses.mean()
    assert first["treecv", "randomized", 10, 150] != first["treecv", "fixed", 10, 150]
    assert (frame[["seconds", "pass_seconds"]] > 0).all(axis=None)


def test_ratios_of_a_table_made_by_hand():
    papers = {"treecv.fixed.5": "30.0 ± 2.0", "treecv.fixed.100": "31.0 ± 0.5"}
    papers |= {"standard.fixed.5": "33.0 ± 1.0", "standard.fixed.100": "31.5 ± 1.0"}
    papers["treecv.fixed.n"] = "30.6 ± 0.1"
    table = treecv_tables.published(papers, n=581_012)
    assert table.loc[("treecv", "fixed", 0)].tolist() == [30.6, 0.1, 581_012]
    assert treecv_tables.spread_ratio(table, "treecv", "fixed") == 0.25
    assert treecv_tables.largest_gap(table) == 1.5  # |30 - 33| / 2; |31 - 31.5| / 1 is less
    assert treecv_tables.published(treecv_tables.printed(table), n=581_012).equals(table)


def test_level_and_spread_beside_the_published_ones():
    cells = {("treecv", "fixed", 5): [30.0, 32.0], ("treecv", "fixed", 100): [31.0, 31.2]}
    losses = pd.DataFrame(cells).rename_axis(["method", "order", "k"], axis=1)
    papers = {"none": None, "treecv.fixed.5": "30.0 ± 2.0", "treecv.fixed.100": "31.0 ± 0.1"}
    published = treecv_tables.published(papers, n=4_000)
    table = treecv_tables.moments(losses)
    assert table["mean"].tolist() == pytest.approx([31.0, 31.1])
    assert treecv_tables.spread_factor(table, published) == pytest.approx(np.sqrt(2))
    missing = 100**2 * 0.3 * 0.7 * (1 / 2_000 - 1 / 4_000)  # 0.525: half of the rows are here
    gap = 1.0 / np.sqrt(2.0 / 2 + 4.0 / 100 + missing)
    assert treecv_tables.level_gap(table, published, 100, 2_000, 4_000) == pytest.approx(gap)


def test_costs_of_times_made_by_hand():
    """5, 100, 2000 are equal steps of log k, of 4 s each."""
    seconds = {
        ("treecv", "fixed", 5, 2_000): 4,
        ("treecv", "fixed", 100, 2_000): 8,
        ("treecv", "fixed", 0, 2_000): 12,
        ("treecv", "randomized", 0, 2_000): 24,
        ("treecv", "randomized", 100, 2_000): 20,
        ("standard", "fixed", 5, 2_000): 5,
        ("standard", "fixed", 100, 2_000): 80,
        ("standard", "randomized", 100, 2_000): 160,
    }
    for order in treecv_tables.ORDERS:
        seconds |= {("standard", order, 0, n): s for n, s in ((100, 1), (500, 48))}
    made = pd.Series(seconds, name="seconds").rename_axis(["method", "order", "k", "n"])
    made = made.reset_index().assign(loss=0.0, pass_seconds=1.0, repetition=0)
    [costs] = pd.DataFrame(treecv_tables.costs(made)).to_dict("records")
    known = {"passes": 12 / np.log2(4_000), "standard_passes": 48 / np.log2(1_000)}
    known |= {"randomized": 2.0, "standard_randomized": 2.0, "speedup": 10.0}
    known |= {"loocv_fixed": 0.25, "loocv_randomized": 0.5, "log2k": 1.0, "standard_log2k": 1.0}
    assert {name: costs[name] for name in known} == pytest.approx(known, abs=1e-3)


def test_the_smallest_speedup_is_the_least_median_of_cells_and_order_ratio_a_median_over_k():
    """A single slow call moves a mean, and no median."""
    seconds = {"treecv": [1.0, 1.0, 90.0], "standard": [2.0, 3.0, 4.0]}
    draws = {
        (m, k, i): k * s for m, each in seconds.items() for k in (5, 10) for i, s in enumerate(each)
    }
    frame = pd.Series(draws, name="seconds").rename_axis(["method", "k", "repetition"])
    frame = frame.reset_index().assign(order="fixed", n=9)
    found = treecv_tables.smallest_speedup(frame, np.random.default_rng(0))
    assert (found["value"], found["draws"]) == (2.0, 3)
    assert found["spread"][0] < 2.0 < found["spread"][1]
    ratios = {5: 0.5, 10: 0.8, 100: 3.0}
    cells = {("treecv", "fixed", k): 2.0 for k in ratios}
    cells |= {("treecv", "randomized", k): 2.0 * ratio for k, ratio in ratios.items()}
    assert treecv_tables.order_ratio(pd.DataFrame({"sd": pd.Series(cells)})) == 0.8


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(400, 3)), np.ones(400)])
    return Examples(X, np.where(X[:, 0] + rng.normal(size=400) > 0, 1.0, -1.0))


def test_gap_of_a_draw_is_that_of_both_and_an_idle_learner_costs_copies_only(rows):
    subject = theorems.Subject(lambda n: learners.pegasos(4, 0.1), rows, 0.1)
    drawn = theorems.gaps(subject, 64, 8, 3, np.random.default_rng(0))
    [stream, *_] = np.random.default_rng(0).spawn(3)
    sample = rows.take(stream.integers(400, size=64))
    w = np.zeros(5)
    for x, y in zip(sample.X, sample.y, strict=True):  # PEGASOS by its definition
        if y * (w[:4] @ x) < 0.1 * w[4] or w[4] == 0:
            w[:4] += y * x
        w[4] += 1
    training = (sample.y * (sample.X @ w[:4]) <= 0).mean()
    tree = treecv(learners.pegasos(4, 0.1), sample, 8, shuffle=False).loss
    first = drawn.iloc[0]
    assert first["nothing"] - first["treecv"] == pytest.approx(training - tree, abs=1e-12)
    assert first.se == pytest.approx(kfold(learners.pegasos(4, 0.1), sample, 8, shuffle=False).se)
    assert drawn["n"].tolist() == [64] * 3
    learner = learners.pegasos(4, 0.1)
    result = treecv(theorems.idle(learner, 5), rows, 16, shuffle=False)
    assert (result.pointwise == 0).all()
    assert (result.evaluations["updates"], result.evaluations["copies"]) == (4 * 400, 15)


def test_bounds_and_ratios_made_by_hand():
    columns = {"difference": [-0.4, 0.2, 0.1, -0.1], "incremental": [0.3, 0.1, 0.1, 0.1]}
    columns |= {"n": [10, 10, 20, 20], "batch": [0.1, 0.1, 0.2, 0.2]}
    bound = theorems.bounds(pd.DataFrame(columns))
    assert bound["sure"].tolist() == [0.4, 0.1]
    assert bound["expected"].tolist() == pytest.approx([0.2, 0.2])
    drawn = pd.DataFrame({"n": [10, 10, 20, 20], "treecv": [0.2, -0.1, 0.02, 0.06]})
    np.testing.assert_allclose(theorems.over_sure_bound(drawn, bound), [0.5, 0.6])
    assert theorems.over_expected_bound(drawn, bound) == pytest.approx(0.05 / 0.2)
    assert theorems.standard_errors(drawn) == pytest.approx(0.04 / 0.02)


def test_least_squares_in_the_ball(rng):
    X = rng.normal(size=(200, 3))
    for weights in ([0.3, 0.2, -0.1], [3.0, 0.0, 4.0]):  # inside, and far outside
        y = X @ np.array(weights)
        best = theorems.least_squares_in_ball(Examples(X, y))
        others = rng.normal(size=(2_000, 3))
        others /= np.maximum(np.linalg.norm(others, axis=1, keepdims=True), 1.0)
        errors = ((X @ others.T - y[:, None]) ** 2).mean(axis=0)
        assert best <= errors.min()
        assert best >= errors.min() * 0.9 or np.linalg.norm(weights) <= 1
    assert theorems.least_squares_in_ball(Examples(X, X @ [0.3, 0.2, -0.1])) < 1e-12


def test_a_frozen_step_beside_treecv_and_a_chain_of_few_frames(monkeypatch):
    rows, nothing = phase.beside(phase.study([60], [1], 3, 2, np.random.default_rng(0)), "10", 60)
    assert (rows.frozen < nothing.frozen).all()
    monkeypatch.setattr(standard_errors, "N_TRUTH", 200)
    covered = standard_errors.one_draw("hmm", np.random.default_rng(1))
    assert (covered.dse >= covered.dse_paired).iloc[:4].all()
