"""The study of the number of states: what is simulated, and what its criteria choose."""

import numpy as np
import pytest
from acvbook.studies import state_counts, state_models, states
from numpy.testing import assert_allclose
from scipy.stats import beta

import acvlib as acv
from acvlib.beyond.from_scratch import fit_restarts
from acvlib.models import GaussianHMM


def test_emissions_are_as_far_apart_as_gaussians():
    """sum_x sqrt(p q) of neighbours is exp(-d^2 / 8) for counts and categories, too."""
    rng = np.random.default_rng(0)
    for d in (1.5, 2.5, 4.0):
        wanted = np.exp(-(d**2) / 8.0)
        rates = state_models.truth(state_models.Design("poisson", 3, d, 1, 9), rng).law
        assert_allclose(np.exp(-(np.diff(np.sqrt(rates)) ** 2) / 2.0), wanted)
        p = state_models.truth(state_models.Design("categorical", 4, d, 1, 9), rng).law
        assert_allclose(p.sum(axis=1), 1.0)
        assert_allclose(np.sqrt(p[:-1] * p[1:]).sum(axis=1), wanted, rtol=1e-9)
        means = state_models.truth(state_models.Design("gaussian", 2, d, 1, 9), rng).law
        assert_allclose(np.diff(means), d)


def test_what_is_drawn_has_the_moments_of_its_states():
    rng = np.random.default_rng(1)
    for emission in state_models.EMISSIONS:
        truth = state_models.truth(state_models.Design(emission, 2, 4.0, 1, 9), rng)
        x = np.concatenate(truth.draw([400] * 50, rng))
        transition = np.diff(truth.transition, prepend=0.0, axis=1)
        share = transition[1, 0] / (transition[0, 1] + transition[1, 0])
        mean = truth.law if truth.law.ndim == 1 else truth.law @ np.arange(6)
        assert_allclose(x.mean(), share * mean[0] + (1 - share) * mean[1], atol=0.15)


def test_a_row_is_what_the_library_says():
    """Totals of both rungs against a call of each method; one-standard-error by compare_models."""
    every = state_models.designs((1, 2), (4.0,), (10,), (200,))[:2]
    rows = [row for d in every for n in (0, 1) for row in state_counts.study(d, (1, 2), n, 7)]
    design = state_models.Design(**{f: rows[-3][f] for f in state_models.Design._fields})
    assert design == state_models.Design("gaussian", 2, 4.0, 10, 200)
    rng = np.random.default_rng([7, 0, 0, 20, 40, 100, 2000])
    law = state_models.truth(design, rng)
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


def test_information_criteria_count_parameters_and_frames():
    rng = np.random.default_rng(0)
    model = GaussianHMM([rng.standard_normal(30), rng.standard_normal(20)], 2)
    fit = acv.fit(model)
    found = state_counts.information(model, fit)
    doubled = 2 * model.sequence_losses(fit.params).sum()
    assert found["aic"] == pytest.approx(doubled + 2 * (1 + 2 + 4))
    assert found["bic"] == pytest.approx(doubled + 7 * np.log(50))
    assert found["icl"] > found["bic"]


def test_intervals():
    mean, *found = states.interval(np.arange(50) < 10)
    low, high = beta.ppf([0.025, 0.975], [10, 11], [41, 40])  # Clopper and Pearson's is wider
    assert low - 0.01 < found[0] < 0.2 == mean < found[1] < high + 0.01
    assert states.interval([True] * 30)[2] == 1.0
    assert states.interval([1.0, 3.0]) == pytest.approx((2.0, 2 - 1.96, 2 + 1.96))


def test_the_future_is_what_comes_next_in_every_sequence():
    model = GaussianHMM([np.arange(20.0), np.arange(20.0)], 1)
    folds = state_counts.future(model)
    assert list(folds[0]) == [*range(10, 20), *range(30, 40)]
    assert [list(s) for s in folds.scored[:2]] == [[10, 11, 30, 31], [12, 13, 32, 33]]
