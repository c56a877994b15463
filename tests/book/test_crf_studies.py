"""The studies of the CRF chapter, on small CRFs and on a quadratic whose constants are known."""

import numpy as np
import pytest
from acvbook.datasets.tagged import simulated_text
from acvbook.studies import (
    crf_epochs,
    entities,
    feature_crf,
    hand_features,
    hidden_labels,
    inexact,
)
from oracles.toy_models import Ridge, Saddle

import acvlib as acv
from acvlib.models import LinearChainCRF
from acvlib.weighting import hide_labels


@pytest.fixture(scope="module")
def model():
    """60 sentences with labels drawn from a CRF of three tags,
    so that labels are learnable and not certain.
    """
    rng, links = np.random.default_rng(0), np.array([[1.0, 0, 0], [0, 1.0, 0], [-1.0, 0, 1.0]])
    emissions = [rng.normal(0, 2, (rng.integers(1, 7), 3)) for _ in range(60)]
    truth = np.concatenate([[0.5, 0, 0], links.ravel(), [0, 0, 0.5]])
    blank = LinearChainCRF(emissions, [np.zeros(len(e), int) for e in emissions])
    labels = [[rng.choice(3, p=p / p.sum()) for p in rows] for rows in blank.marginals(truth)]
    return LinearChainCRF(emissions, [np.array(z) for z in labels], 0.5)


def test_batch_gradients_average_to_the_whole_one(model):
    params = np.random.default_rng(1).normal(size=15)
    parts = [crf_epochs.batch_gradient(model, params, rows) for rows in np.split(np.arange(60), 6)]
    _, gradient = model.derivatives.value_and_gradient(params, np.ones(60))
    assert np.mean(parts, axis=0) == pytest.approx(gradient / 60, abs=1e-12)


def test_adam_keeps_every_epoch_and_comes_near_the_optimum(model):
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


def test_first_adam_step_has_the_learning_rate_for_its_length(model):
    iterates, _ = crf_epochs.adam_epochs(model, np.zeros(15), 1, np.random.default_rng(3), 60, 0.01)
    gradient = crf_epochs.batch_gradient(model, np.zeros(15), np.arange(60))
    assert iterates[1] == pytest.approx(-0.01 * gradient / (abs(gradient) + 1e-8), abs=1e-15)


def test_own_gradient_is_that_of_the_sentences_alone(model):
    params, alone = np.random.default_rng(10).normal(size=15), np.zeros(60)
    alone[[4, 7]] = 1.0
    _, gradient = model.derivatives.value_and_gradient(params, alone)
    own = crf_epochs._own_gradient(model, params, np.array([4, 7]))
    assert own == pytest.approx(gradient - model.ridge * params, abs=1e-12)


@pytest.fixture(scope="module")
def study(model):
    """Three sets of ten sentences, 30 epochs."""
    return crf_epochs.layer_study(_Emissions(model), 3, 10, 30, np.random.default_rng(4), 0.5)


class _Emissions:
    def __init__(self, model):
        self.scores, self.tags = {"train": model.emissions}, {"train": model.labels}
        self.crf = np.zeros(15)


def test_sets_of_sentences_are_disjoint(study):
    folds, draws = crf_epochs.disjoint(10, 3, 5, np.random.default_rng(0))
    assert [len(folds[draw]) for draw in draws] == [3, 3, 3]
    assert len(np.unique(folds)) == 9
    assert len(study.set_folds) == 10
    assert len(np.unique(study.folds)) == 30


def test_layer_study_refits_every_sentence(model, study):
    assert study.unconverged == 0
    own = acv.exact(study.full, study.folds[:2])
    assert study.reference.params[:2] == pytest.approx(own.params, abs=1e-6)
    assert list(crf_epochs.progress(study, (1, 30)).index) == [1, 30]
    assert crf_epochs.hessian_in_gradients(model, study.full.params, 1) > 0


def test_refits_do_not_depend_on_where_they_start(study):
    assert crf_epochs.disagreement(study, (1, 30), 2) < 1e-5


def test_errors_by_draw_are_those_of_its_sentences(model, study):
    table = crf_epochs.by_draw(study, study.iterates[30])
    folds = study.folds[study.draws[1]]
    here, results = crf_epochs.at_iterate(model, study.iterates[30], folds)
    alone = crf_epochs.errors(here, results, acv.exact(study.full, folds), study.full)
    columns = ["correlation", "mean_error", "max_error", "theta_error", "grad_norm"]
    assert table.loc[1][columns].to_numpy() == pytest.approx(alone[columns].to_numpy(), rel=1e-3)
    assert np.isnan(table.differences[1, "no_adjustment"])
    p = {name: np.exp(-result.fold_totals) for name, result in results.items()}
    own = np.exp(-acv.no_adjustment(study.full, folds).fold_totals)
    exact_p = np.exp(-study.reference.fold_totals[study.draws[1]])
    moves = np.corrcoef(p["frozen_newton"] - p["no_adjustment"], exact_p - own)[0, 1]
    assert table.moves[1, "frozen_newton"] == pytest.approx(moves)
    rungs = table.mean_error[1]
    expected = rungs.infinitesimal_jackknife / rungs.no_adjustment
    assert crf_epochs.gains(table)[1] == pytest.approx(expected)
    found = crf_epochs.judged(table)
    assert found[".gain"][0][1] == pytest.approx(expected)
    assert (found[".gain"][1] == 1.0).all()
    assert found[""][1][1] == table.correlation[1, "no_adjustment"]


def test_first_set_of_the_reference(model, study):
    first = study.set_reference
    assert first.fold_losses == pytest.approx(study.reference.fold_losses[:10])
    assert [list(fold) for fold in first.folds] == [list(fold) for fold in study.set_folds]


def test_nearer_counts_folds(model, study):
    shares = crf_epochs.nearer(study, study.iterates[10])
    _, results = crf_epochs.at_iterate(model, study.iterates[10], study.set_folds)
    errors = {
        name: study.full.standard_errors_between(r.params, study.reference.params[:10])
        for name, r in results.items()
    }
    expected = errors["frozen_newton"] <= errors["infinitesimal_jackknife"]
    assert shares["ij"][0] == pytest.approx(expected.mean())
    assert len(shares["none"]) == 3


def test_at_the_optimum_the_jackknife_gains(study):
    table = crf_epochs.by_draw(study, study.full.params)
    assert (crf_epochs.gains(table) < 0.3).all()
    assert (table.differences.xs("infinitesimal_jackknife", level="rung") > 0.95).all()


def test_error_falls_along_the_path(study):
    path = crf_epochs.error_path(study, (0, 10, 30))
    found = crf_epochs.decays(path)
    assert len(found) == 3
    assert (found.slope > 0).all()
    orders = crf_epochs.other_orders(study, np.zeros(15), (10, 30), np.random.default_rng(5), 1)
    assert 0 < orders < 0.5


def test_decay_of_a_power_law():
    import pandas as pd

    rungs = pd.Index(["infinitesimal_jackknife"], name="rung")
    tables = {
        (e, draw): pd.DataFrame({"mean_error": [e**-power], "grad_norm": [1.0 / e]}, index=rungs)
        for e in (1, 2, 4)
        for draw, power in enumerate((1.5, 0.5))
    }
    found = crf_epochs.decays(pd.concat(tables, names=["epoch", "draw"]))
    assert found.slope.to_numpy() == pytest.approx([1.5, 0.5])
    assert found["rank"].to_numpy() == pytest.approx([1.0, 1.0])


def test_proposition_2_on_a_quadratic():
    """Ridge regression: H is constant, so L_Hinv = 0; lambda_min and L_g are known."""
    rng = np.random.default_rng(5)
    model = Ridge(rng.normal(size=(30, 3)), rng.normal(size=30))
    full, folds = acv.fit(model), acv.folds.leave_one_out(30)
    reference = acv.exact(full, folds)
    iterates = {1: full.params + rng.normal(size=3), 2: full.params + 0.1}
    table = inexact.proposition2(model, full, iterates, folds, reference)
    assert (table.L_Hinv.astype(float) < 1e-12).all()
    assert table.lambda_min.astype(float).to_numpy() == pytest.approx(
        np.linalg.eigvalsh(full.metric)[0]
    )
    assert table.lambda_min_se.astype(float).to_numpy() == pytest.approx(1.0)
    curvatures = (model.x**2).sum(axis=1)  # the sites' Hessians x x' have these norms
    assert (table.L_g.astype(float) <= curvatures.max() + 1e-9).all()
    found = inexact.summary(table)
    assert list(found.violated) == list(found.violated_se) == [0]
    assert found.tightness[0] >= 1
    none = acv.no_adjustment(full, folds).fold_totals.mean()
    gap = abs(none - reference.fold_totals.mean())
    near = inexact.proposition2(model, full, {1: full.params + 1e-9}, folds, reference)
    assert near.none_error[1, 0] == pytest.approx(gap, rel=1e-5)
    nearest = inexact.at_nearest(near)
    assert nearest.none_error[0] == pytest.approx(gap / near.bound_se[1, 0], rel=1e-5)


def test_proposition_2_of_a_draw_is_that_of_its_folds_alone():
    rng = np.random.default_rng(11)
    model = Ridge(rng.normal(size=(20, 3)), rng.normal(size=20))
    full, folds = acv.fit(model), acv.folds.leave_one_out(20)
    reference, iterates = acv.exact(full, folds), {0: full.params + 0.3}
    draws = (slice(0, 8), slice(8, 20))
    both = inexact.proposition2(model, full, iterates, folds, reference, draws=draws)
    part = folds[draws[1]]
    alone = inexact.proposition2(model, full, iterates, part, acv.exact(full, part))
    for column in ("error", "none_error", "bound", "bound_se", "C", "L_p"):
        assert both[column][0, 1] == pytest.approx(alone[column][0, 0], rel=1e-8)


def test_loss_slopes_are_gradients(model):
    folds = np.array([[1], [7]])
    params = np.random.default_rng(6).normal(size=(2, 15))
    exact_slopes = crf_epochs.own_slopes(model, folds)(params)
    assert inexact.loss_slopes(model, params, folds) == pytest.approx(exact_slopes, abs=1e-8)


def test_pulls_are_differences_of_gradients(model):
    """F is linear in the weights of sentences."""
    params, folds = np.random.default_rng(7).normal(size=15), [np.array([3]), np.array([4, 9])]
    weights = [np.ones(60), *(acv.folds.weights(60, fold) for fold in folds)]
    whole, *others = (model.derivatives.value_and_gradient(params, w)[1] for w in weights)
    expected = whole - np.array(others)
    assert inexact.pulls(model, params, folds) == pytest.approx(expected, abs=1e-10)


def test_convex_iterates_come_after_the_last_indefinite_one():
    model = Ridge(np.eye(2), np.ones(2))
    iterates = [np.full(2, v) for v in (0.0, 0.2, 0.4, 0.45, 0.5)]
    chosen = inexact.convex_iterates(model, iterates, 3)
    assert list(chosen) == [0, 2, 3]  # the last one is the optimum
    assert inexact.convex_iterates(Saddle(np.eye(2), np.ones(2)), iterates, 3) == {}


@pytest.fixture(scope="module")
def hidden(model):
    """Every fifth label hidden, one by one."""
    tokens, fit = hidden_labels.within(model, acv.fit(model, tolerance=1e-9))
    folds = np.arange(0, tokens.n_sites, 5)[:, None]
    return tokens, fit, hidden_labels.ladder(tokens, fit, folds, 1e-9)


def test_hidden_labels_ladder(hidden):
    tokens, fit, results = hidden
    assert tokens.scheme is hide_labels
    assert fit.newton_decrement <= 1e-6
    worst = hidden_labels.hardest(results, share=0.3)
    assert (
        results["exact"].fold_losses[worst].min()
        >= np.delete(results["exact"].fold_losses, worst).max()
    )
    table = hidden_labels.summary(results)
    assert table.theta_error["newton_step"] < table.theta_error["frozen_newton"]
    assert table.theta_error["frozen_newton"] < 0.2 * table.theta_error["no_adjustment"]
    assert len(hidden_labels.summary(results, worst)) == 4


def test_ratios_by_draw(hidden):
    _, _, results = hidden
    found = hidden_labels.ratios(results, (slice(0, 12), slice(12, 24)))
    errors = hidden_labels.table(results).iloc[12:24].median()
    expected = errors.infinitesimal_jackknife / errors.no_adjustment
    assert found["theta.ij"][1] == pytest.approx(expected)
    assert set(hidden_labels.hardest(results, slice(12, 24))) <= set(range(12, 24))
    losses = {n: r.fold_totals[:12] for n, r in results.items()}
    gaps = {n: abs(own - losses["exact"]).mean() for n, own in losses.items()}
    assert (found["worst.none"] == 1.0).all()
    assert found["loss.frozen"][0] == pytest.approx(gaps["frozen_newton"] / gaps["no_adjustment"])


def test_jackknife_overshoots_by_the_odds(hidden):
    """Equation (eq-crf-one-label): IJ step = frozen step / p, but for the share of the tokens that
    is kept, by which the frozen step divides H.
    """
    tokens, fit, results = hidden
    steps = {n: r.params - fit.params for n, r in results.items()}
    odds = hidden_labels.largest_odds(tokens, fit.params, results["exact"].folds)
    kept = 1.0 - 1.0 / tokens.n_sites
    assert steps["infinitesimal_jackknife"] == pytest.approx(
        kept * odds[:, None] * steps["frozen_newton"], rel=1e-5, abs=1e-8
    )
    pair = [np.array([0, 5]), np.array([5])]
    both, one = hidden_labels.largest_odds(tokens, fit.params, pair)
    assert both == max(odds[0], one)


def test_enumeration_gap_is_rounding(model):
    params = np.random.default_rng(8).normal(size=15)
    assert hidden_labels.enumeration_gap(model, params, np.random.default_rng(9)) < 1e-10


NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def test_entity_scores_by_hand():
    """Three entities; found: one whole, one with a wrong end, one of the wrong type."""
    true = [np.array([1, 2, 0]), np.array([3, 4, 0, 1])]
    predicted = [np.array([1, 2, 0]), np.array([3, 0, 0, 3])]
    table = entities.entity_scores(true, predicted, NAMES)
    assert table.F1["micro avg"] == pytest.approx(1 / 3)
    assert (table.precision["PER"], table.recall["PER"]) == (1.0, 0.5)
    assert table.entities["micro avg"] == 3


def test_certainty_by_hand():
    """Four words: two surely right, one unsure and wrong, one unsure and right."""
    marginals = [np.array([[0.95, 0.05], [0.4, 0.6]]), np.array([[0.05, 0.95], [0.6, 0.4]])]
    predicted = [np.array([0, 1]), np.array([1, 0])]
    labels = [np.array([0, 0]), np.array([1, 0])]
    table = entities.certainty_table(labels, predicted, marginals)
    assert list(table.tokens) == [2, 2]
    assert list(table["mean P"]) == pytest.approx([0.6, 0.95])
    assert list(table["share right"]) == [0.5, 1.0]


def test_hand_made_features():
    first, second, third = hand_features.features(["EU", "rejects", "1996-08"])
    assert (first["lower"], first["shape"], first["first"], first["last"]) == (
        "eu",
        "X",
        True,
        False,
    )
    assert (second["suffix3"], second["lower-1"], second["shape+1"]) == ("cts", "eu", "9-9")
    assert not {"lower-1", "lower-2"} & set(first)
    assert third["last"]


def test_feature_study():
    """Losses of rungs by draw, and crfsuite's marginals, on made-up words."""
    text = simulated_text("toy", np.random.default_rng(1), (40, 1, 1), 8.0, 0.3)
    found = feature_crf.study(text, 2, 3, np.random.default_rng(0))
    means = feature_crf.mean_losses(found)
    assert means.shape == (2, 5)
    assert (means.no_adjustment < means.exact).all()
    exact = found.results["exact"].fold_totals
    assert means.exact[1] == pytest.approx(exact[3:].mean())
    model, full = found.model, found.full
    tags = feature_crf.tagged(model, full, text.train, text.tags)
    given = [text.tags[k] for k in np.concatenate(tags)]
    assert np.mean(np.array(given) == np.concatenate(text.train.tags)) > 0.9
    assert feature_crf.beside_crfsuite(found, text)["marginals"] < 1e-10
