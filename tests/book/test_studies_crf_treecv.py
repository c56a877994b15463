"""The studies of the CRF chapter, on small CRFs and on a quadratic whose constants are known.

The studies of TreeCV: repetitions over random orders, and what its theorems speak of.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from acvbook.datasets.dodgers import simulate_dodgers
from acvbook.studies import crf_epochs, hidden_labels, inexact, phase, standard_errors
from acvbook.studies import treecv_tables as tables
from acvbook.studies import treecv_theorems as theorems
from oracles.toy_models import Ridge

import acvlib as acv
from acvlib.models import LinearChainCRF
from acvlib.treecv import Examples, kfold, learners, treecv


@pytest.fixture(scope="module")
def model():
    """60 sentences with labels drawn from a CRF of three tags: learnable, and not certain."""
    rng, links = np.random.default_rng(0), np.array([[1.0, 0, 0], [0, 1.0, 0], [-1.0, 0, 1.0]])
    emissions = [rng.normal(0, 2, (rng.integers(1, 7), 3)) for _ in range(60)]
    truth = np.concatenate([[0.5, 0, 0], links.ravel(), [0, 0, 0.5]])
    blank = LinearChainCRF(emissions, [np.zeros(len(e), int) for e in emissions])
    labels = [[rng.choice(3, p=p / p.sum()) for p in rows] for rows in blank.marginals(truth)]
    return LinearChainCRF(emissions, [np.array(z) for z in labels], 0.5)


def test_batch_gradients_average_to_the_whole_one_and_adam_comes_near_the_optimum(model):
    """Loss slopes are gradients; Adam keeps every epoch, and steps by its rate."""
    params = np.random.default_rng(1).normal(size=15)
    parts = [crf_epochs.batch_gradient(model, params, rows) for rows in np.split(np.arange(60), 6)]
    _, gradient = model.derivatives.value_and_gradient(params, np.ones(60))
    assert np.mean(parts, axis=0) == pytest.approx(gradient / 60, abs=1e-12)
    folds, params = np.array([[1], [7]]), np.random.default_rng(6).normal(size=(2, 15))
    exact_slopes = crf_epochs.own_slopes(model, folds)(params)
    assert inexact.loss_slopes(model, params, folds) == pytest.approx(exact_slopes, abs=1e-8)
    full = acv.fit(model)
    iterates, seconds = crf_epochs.adam_epochs(
        model, np.zeros(15), 40, np.random.default_rng(2), 10, 0.02
    )
    assert (iterates.shape, len(seconds)) == ((41, 15), 41)
    assert (np.diff(seconds) > 0).all()
    distance = full.standard_errors_between(iterates, full.params)
    assert distance[-1] < 0.2 * distance[0]
    again, _ = crf_epochs.adam_epochs(model, np.zeros(15), 40, np.random.default_rng(2), 10, 0.02)
    np.testing.assert_array_equal(iterates, again)
    first, _ = crf_epochs.adam_epochs(model, np.zeros(15), 1, np.random.default_rng(3), 60, 0.01)
    gradient = crf_epochs.batch_gradient(model, np.zeros(15), np.arange(60))
    assert first[1] == pytest.approx(-0.01 * gradient / (abs(gradient) + 1e-8), abs=1e-15)


def test_errors_by_draw_are_those_of_its_sentences(model):
    rng = np.random.default_rng(4)
    scores, tags = {"train": model.emissions}, {"train": model.labels}
    emissions = SimpleNamespace(scores=scores, tags=tags, crf=np.zeros(15))
    study = crf_epochs.layer_study(emissions, 3, 10, 30, rng, 0.5)
    table = crf_epochs.by_draw(study, study.iterates[30])
    folds = study.folds[study.draws[1]]
    here, results = crf_epochs.at_iterate(model, study.iterates[30], folds)
    exact = acv.exact(study.full, folds)
    own = crf_epochs.probabilities(acv.no_adjustment(study.full, folds))
    alone = crf_epochs.errors(here, results, exact, study.full, slice(None), own)
    columns = ["correlation", "mean_error", "max_error", "theta_error", "in_se", "grad_norm"]
    assert table.loc[1][columns].to_numpy() == pytest.approx(alone[columns].to_numpy(), rel=1e-3)
    p = {name: np.exp(-result.fold_totals) for name, result in results.items()}
    exact_p = np.exp(-study.reference.fold_totals[study.draws[1]])
    moves = np.corrcoef(p["frozen_newton"] - p["no_adjustment"], exact_p - own)[0, 1]
    assert table.moves[1, "frozen_newton"] == pytest.approx(moves)
    expected = table.mean_error[1].infinitesimal_jackknife / table.mean_error[1].no_adjustment
    assert crf_epochs.gains(table)[1] == pytest.approx(expected)


def test_proposition_2_on_a_quadratic():
    """Ridge regression: H is constant, so L_Hinv = 0; lambda_min and L_g are known."""
    rng = np.random.default_rng(5)
    model = Ridge(rng.normal(size=(30, 3)), rng.normal(size=30))
    full, folds = acv.fit(model), acv.folds.leave_one_out(30)
    reference = acv.exact(full, folds)
    iterates = {1: full.params + rng.normal(size=3), 2: full.params + 0.1}
    table = inexact.proposition2(model, full, iterates, folds, reference)
    numbers = table[["L_Hinv", "lambda_min", "lambda_min_se"]].astype(float)
    known = [0.0, np.linalg.eigvalsh(full.metric)[0], 1.0]
    np.testing.assert_allclose(numbers - known, 0.0, atol=1e-6)
    assert (numbers.L_Hinv < 1e-12).all()
    curvatures = (model.x**2).sum(axis=1)  # the sites' Hessians x x' have these norms
    assert (table.L_g.astype(float) <= curvatures.max() + 1e-9).all()
    found = inexact.summary(table)
    assert list(found.violated) == list(found.violated_se) == [0]
    assert found.tightness[0] >= 1
    gap = abs(acv.no_adjustment(full, folds).fold_totals.mean() - reference.fold_totals.mean())
    near = inexact.proposition2(model, full, {1: full.params + 1e-9}, folds, reference)
    nearest = inexact.at_nearest(near)
    assert nearest.none_error[0] == pytest.approx(gap / near.bound_se[1, 0], rel=1e-5)


def test_a_step_with_linear_weights_is_the_frozen_one_and_by_factors_it_is_over_p(model):
    """Equation (eq-crf-one-label), but for the kept share, by which the frozen step divides H."""
    tokens, fit = hidden_labels.within(model, acv.fit(model, tolerance=1e-9))
    each = np.arange(0, tokens.n_sites, 5)[:, None]
    results = hidden_labels.ladder(tokens, fit, each, 1e-9)
    steps = {n: r.params - fit.params for n, r in results.items()}
    folds = results["exact"].folds
    p = np.exp(-np.concatenate(list(tokens.derivatives.heldout(fit.params, folds))))
    kept = 1.0 - 1.0 / tokens.n_sites
    frozen = pytest.approx(kept * steps["frozen_newton"], rel=1e-5, abs=1e-8)
    assert steps["linear"] == frozen
    assert p[:, None] * steps["infinitesimal_jackknife"] == frozen
    pair = hidden_labels.linear(fit, acv.no_adjustment(fit, [[0, 5]])).params - fit.params
    assert pair[0] == pytest.approx(steps["linear"][:2].sum(axis=0))


def test_entity_scores_by_hand():
    """Three entities; found: one whole, one with a wrong end, one of the wrong type."""
    names = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    true = [np.array([1, 2, 0]), np.array([3, 4, 0, 1])]
    predicted = [np.array([1, 2, 0]), np.array([3, 0, 0, 3])]
    table = crf_epochs.entity_scores(true, predicted, names)
    assert table.F1["micro avg"] == pytest.approx(1 / 3)
    assert [table.precision["PER"], table.recall["PER"], *table.entities[-1:]] == [1.0, 0.5, 3]


def test_growth_of_the_constant_is_of_ten_folds_a_draw():
    """With no more than one site a fold, L_p is the steepest of ten losses: near 1, and C above."""
    data = simulate_dodgers(np.random.default_rng(0)).head(6_000)
    one = inexact.growth(data, [4_000, 6_000], lambda T: 1, 2, np.random.default_rng(1))
    many = inexact.growth(data, [6_000], lambda T: T // 50, 2, np.random.default_rng(1))
    assert one["L_p"].shape == (2, 2)
    assert (one["excess"] > 0).all(axis=None)
    assert (many["L_p"][6_000] > one["L_p"][6_000]).all()


def test_a_repetition_is_the_cross_validation_of_the_first_rows_in_its_order():
    def make(n):
        return learners.lsqsgd(3, n**-0.5)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    data = Examples(X, X[:, 0] + rng.normal(size=300))
    cells = tables.of_treecv([150, 300]) + tables.of_standard([150, 300], [120])
    frame = tables.repeat(make, data, [(cells, 4)], np.random.default_rng(5))
    [stream, *_] = np.random.default_rng(5).spawn(4)
    head = data.take(stream.permutation(300)[:150])
    first = frame[frame["repetition"] == 0].set_index(["method", "order", "k", "n"])["loss"]
    for name, method, k in [("treecv", treecv, 10), ("treecv", treecv, 0), ("standard", kfold, 5)]:
        again = method(make(150), head, k or 150, shuffle=False)
        assert first[name, "fixed", k, 150] == 100 * again.fold_losses.mean()
    assert first["treecv", "randomized", 10, 150] != first["treecv", "fixed", 10, 150]
    assert (frame[["seconds", "pass_seconds"]] > 0).all(axis=None)


def test_ratios_of_a_table_made_by_hand_and_level_and_spread_beside_the_published_ones():
    papers = {"treecv.fixed.5": "30.0 ± 2.0", "treecv.fixed.100": "31.0 ± 0.5"}
    papers |= {"standard.fixed.5": "33.0 ± 1.0", "standard.fixed.100": "31.5 ± 1.0"}
    papers["treecv.fixed.n"] = "30.6 ± 0.1"
    table = tables.published(papers, n=581_012)
    assert table.loc[("treecv", "fixed", 0)].tolist() == [30.6, 0.1, 581_012]
    assert tables.spread_ratio(table, "treecv", "fixed") == 0.25
    assert tables.largest_gap(table) == 1.5  # |30 - 33| / 2; |31 - 31.5| / 1 is less
    assert tables.published(tables.printed(table), n=581_012).equals(table)
    cells = {("treecv", "fixed", 5): [30.0, 32.0], ("treecv", "fixed", 100): [31.0, 31.2]}
    losses = pd.DataFrame(cells).rename_axis(["method", "order", "k"], axis=1)
    papers = {"none": None, "treecv.fixed.5": "30.0 ± 2.0", "treecv.fixed.100": "31.0 ± 0.1"}
    published = tables.published(papers, n=4_000)
    table = tables.moments(losses)
    assert table["mean"].tolist() == pytest.approx([31.0, 31.1])
    assert tables.spread_factor(table, published) == pytest.approx(np.sqrt(2))
    missing = 100**2 * 0.3 * 0.7 * (1 / 2_000 - 1 / 4_000)  # 0.525: half of the rows are here
    gap = 1.0 / np.sqrt(2.0 / 2 + 4.0 / 100 + missing)
    assert tables.level_gap(table, published, 100, 2_000, 4_000) == pytest.approx(gap)


def test_costs_of_times_made_by_hand_and_the_smallest_speedup_is_the_least_median_of_cells():
    """5, 100, 2000 are equal steps of log k, of 4 s each.

    A single slow call moves a mean, and no median. The order ratio is a median over k.
    """
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
    for order in tables.ORDERS:
        seconds |= {("standard", order, 0, n): s for n, s in ((100, 1), (500, 48))}
    made = pd.Series(seconds, name="seconds").rename_axis(["method", "order", "k", "n"])
    made = made.reset_index().assign(loss=0.0, pass_seconds=1.0, repetition=0)
    [costs] = pd.DataFrame(tables.costs(made)).to_dict("records")
    known = {"passes": 12 / np.log2(4_000), "standard_passes": 48 / np.log2(1_000)}
    known |= {"randomized": 2.0, "standard_randomized": 2.0, "speedup": 10.0}
    known |= {"loocv_fixed": 0.25, "loocv_randomized": 0.5, "log2k": 1.0, "standard_log2k": 1.0}
    assert {name: costs[name] for name in known} == pytest.approx(known, abs=1e-3)
    seconds = {"treecv": [1.0, 1.0, 90.0], "standard": [2.0, 3.0, 4.0]}
    draws = {
        (m, k, i): k * s for m, each in seconds.items() for k in (5, 10) for i, s in enumerate(each)
    }
    frame = pd.Series(draws, name="seconds").rename_axis(["method", "k", "repetition"])
    frame = frame.reset_index().assign(order="fixed", n=9)
    found = tables.smallest_speedup(frame, np.random.default_rng(0))
    assert (found["value"], found["draws"]) == (2.0, 3)
    assert found["spread"][0] < 2.0 < found["spread"][1]
    ratios = {5: 0.5, 10: 0.8, 100: 3.0}
    cells = {("treecv", "fixed", k): 2.0 for k in ratios}
    cells |= {("treecv", "randomized", k): 2.0 * ratio for k, ratio in ratios.items()}
    assert tables.order_ratio(pd.DataFrame({"sd": pd.Series(cells)})) == 0.8


def test_gap_of_a_draw_is_that_of_both_and_an_idle_learner_costs_copies_only():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(400, 3)), np.ones(400)])
    rows = Examples(X, np.where(X[:, 0] + rng.normal(size=400) > 0, 1.0, -1.0))
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
    result = treecv(theorems.idle(learners.pegasos(4, 0.1), 5), rows, 16, shuffle=False)
    assert (result.pointwise == 0).all()
    assert (result.evaluations["updates"], result.evaluations["copies"]) == (4 * 400, 15)


def test_bounds_and_ratios_made_by_hand_and_least_squares_in_the_ball(rng):
    columns = {"difference": [-0.4, 0.2, 0.1, -0.1], "incremental": [0.3, 0.1, 0.1, 0.1]}
    columns |= {"n": [10, 10, 20, 20], "batch": [0.1, 0.1, 0.2, 0.2]}
    bound = theorems.bounds(pd.DataFrame(columns))
    assert bound["sure"].tolist() == [0.4, 0.1]
    assert bound["expected"].tolist() == pytest.approx([0.2, 0.2])
    drawn = pd.DataFrame({"n": [10, 10, 20, 20], "treecv": [0.2, -0.1, 0.02, 0.06]})
    np.testing.assert_allclose(theorems.over_sure_bound(drawn, bound), [0.5, 0.6])
    assert theorems.over_expected_bound(drawn, bound) == pytest.approx(0.05 / 0.2)
    assert theorems.standard_errors(drawn) == pytest.approx(0.04 / 0.02)
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
