"""The choice between models: against its parts, and refusals of candidates on different data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import acvlib as acv
from acvlib.beyond.from_scratch import Restarts
from acvlib.fit import SAME, UnrepeatedOptimum
from acvlib.models import GLM, AutoRegressiveHMM, GaussianHMM, PoissonHMM

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 4))
Y = X[:, 0] - X[:, 1] + 0.13 * X[:, 2] + 0.5 * RNG.standard_normal(60)
ROWS = acv.folds.k_fold(60, 10, RNG)
SERIES = 3.0 * np.repeat(RNG.integers(0, 2, 15), 8) + RNG.standard_normal(120)
FRAMES = acv.folds.k_fold(120, 4, RNG)
COLUMNS = {f"{d} columns": GLM(X[:, :d], Y, "gaussian", penalty=0.1) for d in (1, 2, 3, 4)}


@pytest.fixture(scope="module")
def states():
    candidates = {f"K = {k}": GaussianHMM(SERIES, k) for k in (1, 2, 3)}
    return candidates, acv.choose(candidates, FRAMES, n_starts=8, rng=0)


def test_regressions_are_chosen_as_by_their_parts():
    found = acv.choose(COLUMNS, ROWS)
    results = {n: acv.exact(acv.fit(model), ROWS) for n, model in COLUMNS.items()}
    table = acv.compare_models(results)
    assert_allclose(found.table.elpd, table.elpd, rtol=1e-10)
    assert_allclose(found.table.dse, table.dse, rtol=1e-8, atol=1e-8)
    assert found.best == table.index[0]
    close = [n for n in table.index if table.elpd_diff[n] <= table.dse[n] or n == found.best]
    assert found.simplest == min(close, key=lambda name: int(name[0]))
    assert found.simplest != found.best
    assert set(found.table.starts) == {"1 of 1"}  # convex
    assert "simplest within one standard error: 2 columns" in str(found)


def test_information_criteria_are_those_of_maximum_likelihood(states):
    """Of a line in closed form; of hidden states those of the likelihood without its prior."""
    plain = acv.choose({"line": GLM(X, Y, "gaussian"), "ridge": COLUMNS["4 columns"]}, ROWS).table
    Z = np.column_stack([np.ones(60), X])
    squares = np.sum((Y - Z @ np.linalg.lstsq(Z, Y)[0]) ** 2)
    doubled = squares + 60 * np.log(2 * np.pi)
    assert_allclose(plain.loc["line", ["aic", "bic"]], doubled + 5 * np.array([2, np.log(60)]))
    assert plain.loc["ridge", ["aic", "bic"]].isna().all()
    candidates, choice = states
    for name, model in candidates.items():
        fit = choice.restarts[name].fit
        doubled = 2.0 * model.sequence_losses(fit.params).sum()
        criteria = doubled + len(fit.params) * np.array([2.0, np.log(120)])
        assert_allclose(choice.table.loc[name, ["aic", "bic"]].astype(float), criteria)


def test_criteria_count_what_is_there_and_of_a_field_its_normaliser():
    edges = np.column_stack([np.arange(59), np.arange(1, 60)])
    counts = np.round(np.abs(SERIES[:60]))
    field = acv.models.HiddenMRF(counts, edges, 0.3, n_states=1)
    of_rate = GLM(np.ones((60, 1)), counts, "poisson", intercept=False)
    named = {"field": field, "rate": of_rate, "own": GLM(X, counts, "poisson", site_penalty=0.1)}
    balanced = GLM(X, counts % 2, "multinomial", penalty=1.0, balanced=True)
    assert acv.choose({"balanced": balanced}, ROWS).table.aic.isna().all()
    table = acv.choose(named, ROWS).table
    assert_allclose(table.aic["field"], table.aic["rate"])
    assert np.isnan(table.aic["own"])
    gaps = np.append(SERIES, np.full(9, np.nan))
    forms = {"sample_weight": 2.0}, {}
    twice = [np.repeat(SERIES[None, :, None], n, axis=0) for n in (3, 6)]
    for first, second in ((gaps, SERIES), twice):
        both = zip((first, second), forms if second is twice[1] else ({}, {}), strict=True)
        models = [GaussianHMM(list(x) if x.ndim == 3 else x, 1, **form) for x, form in both]
        found = [
            acv.choose([m], acv.folds.k_fold(m, 3), "exact", 1).table.bic.iloc[0] for m in models
        ]
        assert_allclose(*found)


def test_indefinite_and_unreliable_folds_are_refitted(states):
    candidates, _ = states
    found = acv.choose(candidates, FRAMES, "newton_step", 8, 0)
    for name in candidates:
        result = found.results[name]
        left = acv.check_result(result)
        assert not left.unreliable.any()
        exact = acv.exact(result.fit, FRAMES)
        rows = result.diagnostics["refitted"]
        assert_allclose(result.params[rows], exact.params[rows], atol=1e-4)


def test_folds_of_hidden_states_are_refitted_from_scratch_unless_told_otherwise(states):
    candidates, found = states
    assert {result.method for result in found.results.values()} == {"from_scratch"}
    methods = {result.method for result in acv.choose(COLUMNS, ROWS).results.values()}
    assert methods == {"newton_step, 0 folds refitted"}
    continued = acv.choose(candidates, FRAMES, "exact", 8, 0)
    own, theirs = found.results["K = 3"], continued.results["K = 3"]
    assert own.loss > theirs.loss  # a surplus state knows the fold


def test_a_fit_that_one_start_alone_reached_is_warned_of(states, monkeypatch):
    candidates, found = states
    fit = found.restarts["K = 3"].fit
    lone = Restarts(fit, fit.objective + np.array([1.0, 0.0, 2.0, 3.0]))
    both = Restarts(fit, fit.objective + np.array([0.0, SAME / 2, 1.0]))
    assert (lone.unrepeated, both.unrepeated) == (True, False)
    assert not Restarts(fit, np.array([fit.objective])).unrepeated  # of a single start
    monkeypatch.setattr("acvlib.beyond.choice.fit_restarts", lambda *_: lone)
    with pytest.warns(UnrepeatedOptimum, match="reached the fit of 0: raise n_starts"):
        told = acv.choose([candidates["K = 3"]], FRAMES, "exact")
    assert told.table.starts.tolist() == ["1 of 4"]


COUNTS = np.round(np.abs(SERIES))


def test_other_bad_input_is_named():
    same = [GaussianHMM(COUNTS, 1), PoissonHMM(COUNTS, 2)]  # two laws of the same counts are fine
    with pytest.raises(ValueError, match="one fold"):
        acv.choose(same, FRAMES[:1])
    with pytest.raises(TypeError, match="give a model"):
        acv.choose([same[0], 3], FRAMES)
    with pytest.raises(ValueError, match="not GaussianHMM|not HMM"):
        acv.choose(same[0], FRAMES)
    orders = [AutoRegressiveHMM([SERIES], 1, p, context=2, sites="steps") for p in (1, 2)]
    found = acv.choose(orders, acv.folds.k_fold(118, 4), n_starts=1)
    assert found.table.n_params.loc[["0", "1"]].tolist() == [3, 4]
