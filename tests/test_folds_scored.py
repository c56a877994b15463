"""Every method scores what is scored, given all that is not omitted: against deletion and refit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.toy_models import simulate_traffic

import acvlib as acv
from acvlib.folds import Folds, balls, leave_future_out, weights
from acvlib.methods.ladder import METHODS
from acvlib.models import GLM, GaussianHMM, HiddenMRF, LinearChainCRF, PoissonTraffic, TrafficPrior
from acvlib.weighting import keep_latents

RNG = np.random.default_rng(5)
TIGHT = 1e-9
LINE = [(i, i + 1) for i in range(23)]


def glm():
    x = RNG.normal(size=(40, 3))
    y = (x @ [1.0, -1.0, 0.5] + RNG.logistic(size=40) > 0).astype(float)
    model = GLM(x, y, "logistic", penalty=1.0)
    folds = leave_future_out(40, [20, 26, 33], horizon=4, gap=2)
    return model, model, folds, lambda left: GLM(x[left], y[left], "logistic", penalty=1.0)


def hmm():
    states = np.repeat([0, 1, 0, 1, 0], 12)
    x = RNG.normal(4.0 * states, 1.0)[:, None]
    x[7] = np.nan
    model = GaussianHMM(x, 2)

    def without(left):
        hidden = np.full(x.shape, np.nan)
        hidden[left] = x[left]
        return replace(model, sequences=[hidden])

    scored = [*acv.folds.k_fold(model, 5)]
    wider = [np.arange(max(0, sites[0] - 3), min(60, sites[-1] + 4)) for sites in scored]
    omitted = [sites[model.observed[sites]] for sites in wider]
    return model, model, Folds(omitted, scored), without


def traffic():
    counts, day = simulate_traffic(np.random.default_rng(1), 210, days=10)
    prior = TrafficPrior(excess_shape=(2.0, 0.5))
    model = PoissonTraffic(counts, day, prior=prior)

    def without(left):
        seen = np.full(len(counts), -1)
        seen[left] = counts[left]
        return PoissonTraffic(seen, day, prior=prior)

    starts = np.flatnonzero(model.observed)[[150, 190]]
    return model, model, leave_future_out(210, starts, 5, 2, model.observed), without


def mrf():
    counts = RNG.poisson(np.where(np.arange(24) % 12 < 6, 3, 20))
    model = HiddenMRF(counts, LINE, 0.6)

    def without(left):
        new = np.cumsum(left) - 1
        edges = [(new[a], new[b]) for a, b in LINE if left[a] and left[b]]
        return HiddenMRF(counts[left], edges, 0.6)

    folds = balls(24, LINE, 2, centres_alone=True)[::3]
    return model, replace(model, scheme=keep_latents), folds, without


def crf():
    lengths = RNG.integers(2, 6, 12)
    emissions = [RNG.normal(size=(length, 2)) for length in lengths]
    labels = [RNG.integers(0, 2, length) for length in lengths]
    model = LinearChainCRF(emissions, labels, 0.1)

    def without(left):
        kept = np.flatnonzero(left)
        return LinearChainCRF([emissions[i] for i in kept], [labels[i] for i in kept], 0.1)

    return model, model, Folds([[0, 1, 2], [5, 7, 3, 9]], [[1], [9, 5]]), without


@pytest.fixture(scope="module", params=[glm, hmm, traffic, mrf, crf], ids=lambda f: f.__name__)
def case(request):
    """(model, the one whose weights hide observations alone, folds, their deletion, fit)."""
    model, observations, folds, without = request.param()
    return model, observations, folds, without, acv.fit(model, tolerance=TIGHT)


def by_difference(model, params, omitted, scored):
    """-log p(x_t | x outside the omitted sites): F with t back in, less F without it."""
    w = weights(model.n_sites, omitted)
    units = np.eye(model.n_sites)[scored]
    without = model.objective(params, w)
    return [model.objective(params, w + unit) - without for unit in units]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_scores_the_scored_sites_given_what_is_not_omitted(case, method):
    model, observations, folds, _, fit = case
    result = method(fit, folds)
    everything = zip(result.params, folds.omitted, folds.scored, strict=True)
    expected = [by_difference(observations, *one) for one in everything]
    for ours, theirs in zip(result.losses, expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_exact_is_deletion_of_all_that_is_omitted_and_a_refit(case):
    model, observations, folds, without, fit = case
    exact = acv.exact(fit, folds, tolerance=TIGHT)
    for number, (omitted, scored) in enumerate(zip(folds.omitted, folds.scored, strict=True)):
        left = weights(model.n_sites, omitted) > 0
        refit = acv.fit(without(left), start=fit.params, tolerance=TIGHT).params
        assert fit.standard_errors_between(exact.params[number], refit) < 1e-6
        expected = by_difference(observations, refit, omitted, scored)
        assert_allclose(exact.losses[number], expected, rtol=1e-5, atol=1e-7)
