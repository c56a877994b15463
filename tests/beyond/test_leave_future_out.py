"""Leave-future-out at all origins against exact refits of each, and against their definition."""

import warnings

import numpy as np
import pytest
from ladder_cases import DROPPING, TRAFFIC
from oracles.toy_models import TRAFFIC_PARAMS, simulate_traffic
from oracles.wrappers import raises

import acvlib as acv
from acvlib.beyond.leave_future_out import UnreliableOrigins
from acvlib.beyond.prefixes import futures
from acvlib.derivatives import Derivatives, derivatives_of
from acvlib.model import Refits
from acvlib.models import GLM, AutoRegressiveHMM, GaussianHMM, NeuralHMM, PoissonHMM, PoissonTraffic

OBSERVED = np.flatnonzero(TRAFFIC.observed)
STARTS = OBSERVED[OBSERVED >= 500][::3]


def quietly(*args, **settings):
    with warnings.catch_warnings(action="ignore", category=UnreliableOrigins):
        return acv.leave_future_out(*args, **settings)


def test_errors_fall_with_every_refit_and_are_known(traffic_fit):
    folds = acv.folds.leave_future_out(800, STARTS, 1, observed=TRAFFIC.observed)
    exact = acv.exact(traffic_fit, folds)
    losses = np.concatenate(exact.losses)
    middle = []
    for anchors in (2, 4, 8):
        found = quietly(traffic_fit, STARTS, anchors=anchors)
        errors = traffic_fit.standard_errors_between(found.params, exact.params)
        middle.append(np.median(errors))
        assert np.mean(errors <= 2.0 * found.errors + 0.02) > 0.9
        assert found.refitted.sum() <= anchors
        rows = found.refitted
        np.testing.assert_allclose(found.losses[rows], losses[rows], atol=1e-6)
        np.testing.assert_allclose(found.params[rows], exact.params[rows], atol=1e-5)
    assert middle[2] < 0.5 * middle[0]
    none = np.concatenate(acv.no_adjustment(traffic_fit, exact.folds).losses)
    assert np.median(abs(found.losses - losses)) < 0.1 * np.median(abs(none - losses))
    np.testing.assert_array_equal(found.pointwise[STARTS], found.losses)
    assert found.loss == pytest.approx(losses.mean(), abs=0.01)


CUTS = {"HMM": [], "AR": [], "panel": [200, 321]}  # where other sequences begin


@pytest.mark.parametrize("kind", CUTS)
def test_hidden_markov_models(kind, rng):
    """Sequences of a panel lose their futures together, and some end before others."""
    state = np.cumsum(rng.random(400) < 0.05) % 2
    x = 3.0 * state + rng.standard_normal(400)
    x = np.stack([x, rng.standard_normal(400)], axis=1)
    x[70 if kind == "panel" else []] = np.nan
    parts = np.split(x, CUTS[kind])
    model = GaussianHMM(x, 2) if kind == "HMM" else AutoRegressiveHMM(parts, 2, sites="steps")
    fit = acv.fit(model)
    starts = np.arange(69, 195, 9) if kind == "panel" else np.arange(300, model.n_sites - 1, 7)
    found = quietly(fit, starts, anchors=4)
    lengths = [len(part) - model.context for part in parts]
    folds = acv.folds.leave_future_out(model, starts, 1, lengths=lengths)
    assert found.folds().same_as(folds)
    reference = acv.exact(fit, folds)
    np.testing.assert_array_equal(found.groups, reference.groups)
    assert np.median(fit.standard_errors_between(found.params, reference.params)) < 0.3
    losses = np.concatenate(reference.losses)
    rows = np.repeat(found.refitted, folds.scored.sizes)
    np.testing.assert_allclose(found.losses[rows], losses[rows], atol=1e-5)
    np.testing.assert_allclose(found.losses, losses, atol=0.05)
    assert np.median(abs(found.losses - losses)) < 0.02


BAD = {
    "must be from 1 to 799, with gap 0": {"starts": [800]},
    "must ascend": {"starts": [700, 600]},
    "1 starts are not observed": {"starts": np.flatnonzero(~TRAFFIC.observed)[-1:]},
    "anchors = 1": {"anchors": 1},
    "fold 0 leaves no count above 0 of day 1": {"starts": OBSERVED[3:20]},
}


def test_bad_input_is_named_and_the_first_refit_must_converge(traffic_fit, monkeypatch):
    for message, arguments in BAD.items():
        raises(message, acv.leave_future_out, traffic_fit, **{"starts": STARTS[:5]} | arguments)

    def none_converge(fit, folds, tolerance):
        return Refits.unfinished(len(folds), len(fit.params))

    monkeypatch.setattr("acvlib.beyond.leave_future_out.refit_folds", none_converge)
    before = np.searchsorted(OBSERVED, STARTS[0])
    with pytest.raises(ValueError, match=f"no refit to the {before} sites before {STARTS[0]} "):
        acv.leave_future_out(traffic_fit, STARTS[:5])


def test_models_that_are_no_series_or_too_large_to_form_their_hessian_are_refused(rng):
    regression = GLM(rng.standard_normal((20, 2)), rng.standard_normal(20), "gaussian")
    raises("GLM is no series", acv.leave_future_out, acv.fit(regression), [10, 15], error=TypeError)
    raises("under keep_latents", acv.leave_future_out, acv.fit(DROPPING), [10, 15], error=TypeError)
    x = rng.standard_normal((3, 30))
    with pytest.raises(ValueError, match="whole sequences, which have no future"):
        quietly(acv.fit(GaussianHMM(list(x), 2)), [20, 25])
    model = GaussianHMM(rng.standard_normal(60), 2, dense_limit=3)
    raises("raise dense_limit", acv.leave_future_out, acv.fit(model), [40, 50])


def test_early_origins_have_their_own_refit_or_are_refused(rng):
    fit = acv.fit(GaussianHMM(3.0 * (np.arange(40) // 7 % 2) + rng.normal(size=40), 2))
    found = quietly(fit, [1, 20, 30])
    for params, start, loss in zip(found.params, found.starts, found.losses, strict=True):
        assert loss == pytest.approx(fit.model.heldout_loss(params, np.arange(start, 40))[0])
    x = rng.poisson(4.0, (80, 2)).astype(float)
    x[:60, 1] = np.nan  # of which nothing is known before, under a flat prior
    with pytest.raises(ValueError, match="singular without fold from 40 on, which alone identif"):
        quietly(acv.fit(PoissonHMM(x, 1, (1.0, 0.0))), [40, 50, 70])


PREFIXES = np.array([4, 5, 9, 14])


def walk(rng, n, missing=slice(0)):
    x = np.cumsum(rng.standard_normal((n, 2)), axis=0)
    x[missing, :] = np.nan
    return x


def held(rng):
    model = GaussianHMM(rng.standard_normal(20), 2)
    return model.hold(model.initial_params())[0]


MODELS = {
    "counts": lambda rng: PoissonHMM(rng.poisson(5.0, 20), 2),
    "HMM": lambda rng: GaussianHMM(walk(rng, 20, [6]), 3),
    "AR": lambda rng: AutoRegressiveHMM([walk(rng, 21)], 2, order=2, sites="steps"),
    "network": lambda rng: NeuralHMM([walk(rng, 21)], 2, n_hidden=2, sites="steps"),
    "traffic": lambda rng: PoissonTraffic(*simulate_traffic(rng, 20, days=3, missing=0.1)),
    "held": held,
    "panel": lambda rng: GaussianHMM(np.split(walk(rng, 30, [6]), [8, 22]), 2, sites="steps"),
}


def made(name):
    """(model, params away from any optimum)."""
    rng = np.random.default_rng(3)
    model = MODELS[name](rng)
    start = TRAFFIC_PARAMS if name == "traffic" else model.initial_params()[-model.n_params :]
    return model, start + 0.1 * rng.standard_normal(model.n_params)


def log_p(model, params, sites):
    """(log p of some sites alone, its gradient) by autograd of the weighted objective."""
    weights = np.zeros(model.n_sites)
    weights[sites] = 1.0
    slow = Derivatives(model)
    prior, prior_gradient = slow.value_and_gradient(params, np.zeros(model.n_sites))
    value, gradient = slow.value_and_gradient(params, weights)
    return prior - value, prior_gradient - gradient


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_all_prefixes_and_of_sites_after_some(name):
    model, params = made(name)
    bounds = [0, 8, 22, 30] if name == "panel" else [0, model.n_sites]
    times = np.concatenate([np.arange(length) for length in np.diff(bounds)])
    ends = np.arange(1, times.max() + 1)
    found = futures(derivatives_of(model), params, ends)
    for t, gradient in zip(ends, found.gradient, strict=True):
        expected = log_p(model, params, times < t)[1]
        np.testing.assert_allclose(gradient, expected, atol=1e-8, rtol=1e-8)
    found = futures(derivatives_of(model), params, PREFIXES)
    for i, start in enumerate(PREFIXES if name != "held" else ()):
        before, slope_before = log_p(model, params, times < start)
        for sequence, first in enumerate(bounds[:-1]):
            after = (np.arange(model.n_sites) == first + start) & (times == start)
            both, slope_both = log_p(model, params, (times < start) | after)
            assert found.log_p[i, sequence] == pytest.approx(both - before, abs=1e-9)
            slopes = found.slopes[i, sequence]
            np.testing.assert_allclose(slopes, slope_both - slope_before, atol=1e-8, rtol=1e-8)


def test_a_chain_that_underflows_is_refused():
    model, params = made("traffic")
    params[9] = 700.0
    with pytest.raises(ValueError, match="a transition has log probability -700"):
        futures(derivatives_of(model), params, PREFIXES)
