"""The choice between models: against its parts, and refusals of candidates on different data."""

from dataclasses import dataclass, replace

import autograd.numpy as anp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import Saddle
from oracles.wrappers import raises

import acvlib as acv
from acvlib.beyond.from_scratch import Restarts
from acvlib.fit import SAME, UnrepeatedOptimum
from acvlib.models import GLM, AutoRegressiveHMM, CategoricalHMM, GaussianHMM, PoissonHMM
from acvlib.trials import UnconvergedFit

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
    doubled = np.sum((Y - Z @ np.linalg.lstsq(Z, Y)[0]) ** 2) + 60 * np.log(2 * np.pi)
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
    forms = {"sample_weight": 2.0}, {}
    twice = [np.repeat(SERIES[None, :, None], n, axis=0) for n in (3, 6)]
    for first, second in ((np.append(SERIES, np.full(9, np.nan)), SERIES), twice):
        both = zip((first, second), forms if second is twice[1] else ({}, {}), strict=True)
        models = [GaussianHMM(list(x) if x.ndim == 3 else x, 1, **form) for x, form in both]
        found = [acv.choose([m], acv.folds.k_fold(m, 3), "exact", 1).table for m in models]
        assert_allclose(*[table.bic.iloc[0] for table in found])


def test_folds_of_hidden_states_are_refitted_from_scratch_or_if_unreliable(states, monkeypatch):
    """And a fit that one start alone reached is warned of."""
    candidates, choice = states
    found = acv.choose(candidates, FRAMES, "newton_step", 8, 0)
    for name in candidates:
        result = found.results[name]
        assert not acv.check_result(result).unreliable.any()
        exact = acv.exact(result.fit, FRAMES)
        rows = result.diagnostics["refitted"]
        assert_allclose(result.params[rows], exact.params[rows], atol=1e-4)
    assert {result.method for result in choice.results.values()} == {"from_scratch"}
    methods = {result.method for result in acv.choose(COLUMNS, ROWS).results.values()}
    assert methods == {"newton_step, 0 folds refitted"}
    continued = acv.choose(candidates, FRAMES, "exact", 8, 0)
    own, theirs = choice.results["K = 3"], continued.results["K = 3"]
    assert own.loss > theirs.loss  # a surplus state knows the fold
    fit = choice.restarts["K = 3"].fit
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
    raises("one fold", acv.choose, same, FRAMES[:1])
    raises("give a model", acv.choose, [same[0], 3], FRAMES, error=TypeError)
    raises("not GaussianHMM|not HMM", acv.choose, same[0], FRAMES)
    orders = [AutoRegressiveHMM([SERIES], 1, p, context=2, sites="steps") for p in (1, 2)]
    found = acv.choose(orders, acv.folds.k_fold(118, 4), n_starts=1)
    assert found.table.n_params.loc[["0", "1"]].tolist() == [3, 4]


PARTS = np.split(SERIES, 4)
FOLDS = acv.folds.k_fold(120, 5, RNG)


def test_states_that_are_clear_have_one_optimum_but_for_their_names():
    fit = acv.fit(GaussianHMM(PARTS, 2, sites="steps"), rng=RNG)
    found = acv.from_scratch(fit, FOLDS, 3)
    assert_allclose(found.fold_totals, acv.exact(fit, FOLDS).fold_totals, rtol=1e-7)
    assert found.diagnostics["converged"].all()
    assert (found.diagnostics["agreeing"] >= 1).all()
    assert found.evaluations["fits"] == 15


def categories(sequences, n_states, **settings):
    return CategoricalHMM([np.minimum(x, 5.0) for x in sequences], n_states, 6, **settings)


KINDS = [(GaussianHMM, 1, "steps"), (GaussianHMM, 4, "sequences"), (PoissonHMM, 4, "steps")]
KINDS += [(categories, 1, "steps"), (AutoRegressiveHMM, 4, "steps")]
KINDS += [(AutoRegressiveHMM, 4, "sequences")]


@pytest.mark.parametrize(("kind", "n_sequences", "sites"), KINDS)
def test_a_refit_does_not_depend_on_what_it_leaves_out(kind, n_sequences, sites):
    """With the same units, whatever is left out: those of a fit come from all its frames."""
    fold = np.arange(1, 2) if sites == "sequences" else np.array([3, 7, 8, 63, 119])

    def refit(values):
        model = kind(np.split(values, n_sequences), 2, sites=sites)
        if kind in (GaussianHMM, AutoRegressiveHMM):
            known = kind([np.round(np.abs(part)) for part in PARTS], 2).emission
            model = replace(model, emission=known)
        return acv.from_scratch(acv.fit(model), acv.Folds([fold]), 3, rng=1).params[0]

    other = COUNTS.copy()
    left_out = np.arange(30, 60) if sites == "sequences" else fold
    if kind is AutoRegressiveHMM and sites == "steps":
        left_out = fold[-1:]  # the others are lags of frames that stay
        fold = left_out - n_sequences
    other[left_out] = 5.0 - np.minimum(COUNTS[left_out], 5.0)
    assert (other != COUNTS).any()
    assert_array_equal(refit(other), refit(COUNTS))


@dataclass(frozen=True)
class Unheeded:
    """Two wells, and sample weights that do nothing."""

    sample_weight: float = 1.0
    n_sites = 4

    def objective(self, params, weights):
        return (params[0] ** 2 - 1.0) ** 2 + anp.sum(weights) * params[0]

    def heldout_loss(self, params, fold):
        return params[0] * np.ones(len(fold))

    def initial_params(self, rng):
        return -np.ones(1)


def test_a_fold_that_leaves_no_model_is_lost_alone(rng):
    x = rng.poisson(4.0, (4, 20, 2)).astype(float)
    x[[0, 1, 3], :, 1] = np.nan  # a channel that sequence 2 alone has
    fit = acv.fit(PoissonHMM(list(x), 1))
    with pytest.warns(UnconvergedFit, match="2: .* channel 1 is missing in every frame"):
        found = acv.from_scratch(fit, acv.folds.leave_one_out(4), 1)
    assert np.isnan(found.fold_losses).tolist() == [False, False, True, False]


@dataclass(frozen=True)
class Named(Unheeded):
    """Two wells, and sample weights by name."""

    index = pd.Index(list("abcd"))

    def objective(self, params, weights):
        weights = weights * self.sample_weight.loc[self.index].to_numpy()
        return (params[0] ** 2 - 1.0) ** 2 + anp.sum(weights * np.arange(4.0)) * params[0]


def test_sample_weights_of_ones_own_model_go_by_name_or_it_leaves_no_site_out_and_is_refused():
    fit = acv.fit(Named(pd.Series([1.0, 2.0, 3.0, 4.0], list("cadb"))))
    folds = acv.folds.k_fold(4, 4)
    found = acv.from_scratch(fit, folds, 1)
    assert_allclose(found.fold_losses, acv.exact(fit, folds).fold_losses)
    x = RNG.standard_normal((4, 2))
    folds = acv.folds.k_fold(4, 2)
    saddle = Saddle(x, x[:, 0])
    with pytest.raises(TypeError, match=r'Saddle is no dataclass with .*choose\(.*method="exact"'):
        acv.from_scratch(acv.fit_at(saddle, np.zeros(2)), folds)
    fit = acv.fit(Unheeded())
    raises(r"sample_weight 0 does not leave out .* acv\.exact", acv.from_scratch, fit, folds)
    raises("n_starts = 0", acv.from_scratch, fit, folds, 0)
