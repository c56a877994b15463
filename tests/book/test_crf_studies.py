"""The studies of the CRF chapter, on small CRFs and on a quadratic whose constants are known."""

import numpy as np
import pytest
from acvbook.studies import crf_epochs, entities, hidden_labels, inexact
from oracles.toy_models import Ridge, Saddle
from oracles.wrappers import ByAutograd

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


def test_layer_study(model):
    class Emissions:
        scores, tags, crf = {"train": model.emissions}, {"train": model.labels}, np.zeros(15)

    study = crf_epochs.layer_study(Emissions, 20, (1, 30), np.random.default_rng(4), ridge=0.5)
    assert study.unconverged == 0
    assert study.disagreement < 1e-5
    errors = study.table.mean_error.unstack()
    assert (errors["exact"] < 1e-7).all()
    assert errors.infinitesimal_jackknife[30] < errors.infinitesimal_jackknife[1]
    assert list(crf_epochs.progress(study).index) == [1, 30]
    path = crf_epochs.error_path(
        model, study.iterates, (0, 10, 30), study.folds, study.reference, study.full
    )
    slope, rank = crf_epochs.decay(path)
    assert slope > 0
    assert rank > 0
    assert crf_epochs.hessian_in_gradients(study.model, study.full.params, 1) > 0


def test_decay_of_a_power_law():
    import pandas as pd

    rungs = ["infinitesimal_jackknife"]
    tables = {
        e: pd.DataFrame({"mean_error": [e**-1.5], "grad_norm": [1.0 / e]}, index=rungs)
        for e in (1, 2, 4)
    }
    path = pd.concat(tables, names=["epoch", "rung"])
    assert crf_epochs.decay(path) == pytest.approx((1.5, 1.0))


def test_proposition_2_on_a_quadratic():
    """Ridge regression: H is constant, so L_Hinv = 0; lambda_min and L_g are known."""
    rng = np.random.default_rng(5)
    model = Ridge(rng.normal(size=(30, 3)), rng.normal(size=30))
    full, folds = acv.fit(model), acv.folds.leave_one_out(30)
    reference = acv.exact(model, full, folds)
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
    assert found["violated"] == found["violated_se"] == 0
    assert found["tightness"] >= 1


def test_loss_slopes_are_gradients(model):
    folds = np.array([[1], [7]])
    params = np.random.default_rng(6).normal(size=(2, 15))
    exact_slopes = crf_epochs.own_slopes(model, folds)(params)
    assert inexact.loss_slopes(model, params, folds) == pytest.approx(exact_slopes, abs=1e-8)


def test_pulls_agree_with_autograd(model):
    params, folds = np.random.default_rng(7).normal(size=15), [np.array([3]), np.array([4, 9])]
    expected = inexact.pulls(ByAutograd(model), params, folds)
    assert inexact.pulls(model, params, folds) == pytest.approx(expected, abs=1e-10)


def test_convex_iterates_come_after_the_last_indefinite_one():
    model = Ridge(np.eye(2), np.ones(2))
    iterates = [np.full(2, v) for v in (0.0, 0.2, 0.4, 0.45, 0.5)]
    chosen = inexact.convex_iterates(model, iterates, 3)
    assert list(chosen) == [0, 2, 3]  # the last one is the optimum
    assert inexact.convex_iterates(Saddle(np.eye(2), np.ones(2)), iterates, 3) == {}


def test_hidden_labels_ladder(model):
    tokens, fit = hidden_labels.within(model, acv.fit(model))
    assert tokens.scheme is hide_labels
    assert fit.newton_decrement <= 1e-6
    results = hidden_labels.ladder(tokens, fit, np.arange(0, tokens.n_sites, 5)[:, None])
    table, worst = hidden_labels.summary(results), hidden_labels.hardest(results, 0.3)
    assert (
        results["exact"].fold_losses[worst].min()
        >= np.delete(results["exact"].fold_losses, worst).max()
    )
    assert table.theta_error["frozen_newton"] < 0.2 * table.theta_error["no_adjustment"]
    assert set(hidden_labels.over_none(table)) == {"frozen", "ij"}
    assert len(hidden_labels.summary(results, worst)) == 3


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


def test_sentence_for_the_reader():
    from acvbook.datasets import Sentences

    words = (("a",) * 9, ("b",) * 8, ("c",) * 8)
    tags = (
        ("B-PER", "B-LOC", *["O"] * 7),
        ("B-PER",) + ("O",) * 7,
        ("B-PER", "B-LOC") + ("O",) * 6,
    )
    assert entities.example(Sentences(words, tags), 2) == 2
    marginals = np.full((2, 5), 0.2)
    table = entities.sentence_table(
        ("x", "y"), NAMES, np.array([1, 0]), np.array([1, 1]), marginals
    )
    assert list(table.predicted) == ["B-PER", "B-PER"]
    assert list(table["P(label)"]) == [0.2, 0.2]
