"""The studies of the CRF chapter, on small CRFs and on a quadratic whose constants are known."""

from types import SimpleNamespace

import numpy as np
import pytest
from acvbook.datasets.dodgers import simulate_dodgers
from acvbook.studies import crf_epochs, hidden_labels, inexact
from oracles.toy_models import Ridge

import acvlib as acv
from acvlib.models import LinearChainCRF


@pytest.fixture(scope="module")
def model():
    """60 sentences with labels drawn from a CRF of three tags: learnable, and not certain."""
    rng, links = np.random.default_rng(0), np.array([[1.0, 0, 0], [0, 1.0, 0], [-1.0, 0, 1.0]])
    emissions = [rng.normal(0, 2, (rng.integers(1, 7), 3)) for _ in range(60)]
    truth = np.concatenate([[0.5, 0, 0], links.ravel(), [0, 0, 0.5]])
    blank = LinearChainCRF(emissions, [np.zeros(len(e), int) for e in emissions])
    labels = [[rng.choice(3, p=p / p.sum()) for p in rows] for rows in blank.marginals(truth)]
    return LinearChainCRF(emissions, [np.array(z) for z in labels], 0.5)


def test_batch_gradients_average_to_the_whole_one_and_loss_slopes_are_gradients(model):
    params = np.random.default_rng(1).normal(size=15)
    parts = [crf_epochs.batch_gradient(model, params, rows) for rows in np.split(np.arange(60), 6)]
    _, gradient = model.derivatives.value_and_gradient(params, np.ones(60))
    assert np.mean(parts, axis=0) == pytest.approx(gradient / 60, abs=1e-12)
    folds, params = np.array([[1], [7]]), np.random.default_rng(6).normal(size=(2, 15))
    exact_slopes = crf_epochs.own_slopes(model, folds)(params)
    assert inexact.loss_slopes(model, params, folds) == pytest.approx(exact_slopes, abs=1e-8)


def test_adam_keeps_every_epoch_steps_by_its_rate_and_comes_near_the_optimum(model):
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


NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def test_entity_scores_by_hand():
    """Three entities; found: one whole, one with a wrong end, one of the wrong type."""
    true = [np.array([1, 2, 0]), np.array([3, 4, 0, 1])]
    predicted = [np.array([1, 2, 0]), np.array([3, 0, 0, 3])]
    table = crf_epochs.entity_scores(true, predicted, NAMES)
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
