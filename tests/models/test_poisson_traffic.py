"""The traffic model: densities against scipy, derivatives against autograd and enumeration."""

import re

import numpy as np
import pytest
from autograd import grad, hessian
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles.enumerate import traffic_heldout, traffic_objective
from oracles.refit import derivatives
from oracles.toy_models import FIRM, TRAFFIC_PARAMS, simulate_traffic
from oracles.wrappers import ByAutograd, raises
from scipy import stats

from acvlib import exact, fit, infinitesimal_jackknife, newton_step, weighting
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.folds import weights as fold_weights
from acvlib.inference.two_state import BLOCK, N_LANES
from acvlib.models import PoissonTraffic, TrafficPrior
from acvlib.models.traffic.emission import SUGGESTED_PRIOR
from acvlib.trials import NoFiniteOptimum, UnconvergedFit

COUNTS = np.array([9, 14, -1, 30, 12, 0, -1, 21])
DAY = np.array([2, 2, 2, 2, 5, 5, 0, 0])
SMALL = PoissonTraffic(COUNTS, DAY)
SMALL_FOLDS = Folds([[0], [3], [7], [1, 3], [4, 5, 7], [0, 1, 3, 4, 5], [7, 0]])
FRACTIONS = np.array([0.3, 1.0, 1.0, 0.0, 0.6, 0.9, 0.5, 0.2])
PRIOR = TrafficPrior((2.0, 0.3), 1.7, (3.0, 0.2), (1.5, 0.7), (5.0, 2.0), (4.0, 3.0))


def close(ours, theirs, tolerance=1e-10):
    scale = max(1.0, np.abs(theirs).max())
    assert_allclose(np.asarray(ours) / scale, np.asarray(theirs) / scale, rtol=0, atol=tolerance)


def all_at(model, params, weights):
    own = derivatives_of(model)
    hessian, cross = own.hessian(params, weights), own.cross_matrix(params, weights)
    return [*own.value_and_gradient(params, weights), np.asarray(hessian), cross]


def all_of_folds(model, params, folds):
    own = derivatives_of(model)
    values, gradients = own.fold_gradients(params, folds)
    losses = own.heldout(params, folds)
    return values, gradients, own.fold_hessians(params, folds).matrices, losses


def params_near(seed, spread=0.4):
    return TRAFFIC_PARAMS + spread * np.random.default_rng(seed).standard_normal(11)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.lists(st.floats(0.1, 5.0), min_size=11, max_size=11))
def test_prior_derivatives_in_closed_form_equal_autograd(seed, h):
    prior = TrafficPrior(h[:2], h[2], *(h[i : i + 2] for i in (3, 5, 7, 9)))
    params = np.stack([params_near(seed), params_near(seed + 1)])
    value, gradient = prior.negative_log_density(params), prior.gradient(params)
    for i, p in enumerate(params):
        close(value[i], prior.negative_log_density(p), 1e-13)
        close(gradient[i], grad(prior.negative_log_density)(p), 1e-13)
        close(prior.hessian(p), hessian(prior.negative_log_density)(p), 1e-13)


def test_prior_is_the_densities_of_scipy_up_to_a_constant_and_a_flat_one_adds_nothing():
    def log_density(params):
        p = SMALL.unpack(params)
        days = stats.dirichlet.logpdf(p.rates / p.rates.sum(), np.full(7, PRIOR.day_concentration))
        values = p.rates.mean(), p.excess_shape, p.excess_rate
        laws = PRIOR.base_rate, PRIOR.excess_shape, PRIOR.excess_rate
        each = zip(values, laws, strict=True)
        gammas = [stats.gamma.logpdf(x, shape, scale=1 / rate) for x, (shape, rate) in each]
        quiet, event = PRIOR.stay_quiet, PRIOR.stay_event
        betas = stats.beta.logpdf(p.stay[0], *quiet) + stats.beta.logpdf(p.stay[1], *event)
        return days + sum(gammas) + betas

    gaps = [log_density(p) + PRIOR.negative_log_density(p) for p in map(params_near, range(5))]
    assert_allclose(gaps, gaps[0], rtol=1e-11)
    # Gamma(1, 0), Dirichlet(1) and Beta(1, 1) are flat: the objective is minus log p(counts)
    flat = TrafficPrior((1.0, 0.0), 1.0, (1.0, 0.0), (1.0, 0.0))
    params = np.linspace(-1.0, 1.0, 11)
    assert flat.negative_log_density(params) == 0.0
    assert not flat.gradient(params).any()
    assert not flat.hessian(params).any()
    for name in ("stay_quiet", "stay_event"):
        raises(f"{name} must be above 0", TrafficPrior, **{name: (1.0, 0.0)})


@pytest.mark.parametrize("weights", [FRACTIONS, fold_weights(8, [3, 4])], ids=str)
@pytest.mark.parametrize("scheme", ["A", "B"])
def test_objective_and_its_derivatives_equal_enumeration(scheme, weights):
    schemes = {"A": weighting.keep_latents, "B": weighting.drop_latents}
    model = PoissonTraffic(COUNTS, DAY, schemes[scheme])
    expected = derivatives(traffic_objective(model, scheme), TRAFFIC_PARAMS, weights)
    for path in (model, ByAutograd(model)):
        for a, b in zip(all_at(path, TRAFFIC_PARAMS, weights), expected, strict=True):
            close(a, b)


@pytest.mark.parametrize("at_one_point", [False, True])
def test_fold_functions_equal_enumeration(at_one_point):
    folds = SMALL_FOLDS[2:]
    params = np.stack([params_near(i, 0.2) for i in range(len(folds))])
    params = params[0] if at_one_point else params
    ours, slow = (all_of_folds(model, params, folds) for model in (SMALL, ByAutograd(SMALL)))
    objective = traffic_objective(SMALL, "A")
    for i, fold in enumerate(folds):
        p = params if at_one_point else params[i]
        *expected, _ = derivatives(objective, p, fold_weights(8, fold))
        expected.append(traffic_heldout(SMALL, p, fold))
        for own, other, truth in zip(ours, slow, expected, strict=True):
            close(own[i], truth)
            close(other[i], truth)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.lists(st.integers(-1, 40), min_size=2, max_size=6), st.data())
def test_derivatives_equal_enumeration_for_any_counts_and_weights(seed, counts, data):
    counts = np.array([5, *counts])
    n = len(counts)
    day = np.sort(data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)))
    shares = st.sampled_from([0.0, 0.25, 0.8, 1.0])
    weights = np.array(data.draw(st.lists(shares, min_size=n, max_size=n)))
    model, params = PoissonTraffic(counts, day), params_near(seed)
    expected = derivatives(traffic_objective(model, "A"), params, weights)
    for a, b in zip(all_at(model, params, weights), expected, strict=True):
        close(a, b)


@pytest.mark.parametrize("logit", [-12.0, 12.0, 25.0, 40.0])
def test_a_nearly_absorbing_state_that_the_data_leave_costs_no_digits(logit):
    """P(leave) taken as 1 - P(stay) keeps five digits at a logit of 25, and none at 37."""
    model = PoissonTraffic(np.array([1, 2, -1, 30, 42, 0, -1, 1]), DAY)
    params = np.concatenate([TRAFFIC_PARAMS[:7] - 2.0, TRAFFIC_PARAMS[7:9], [logit, 1.6]])
    value, gradient, second, _ = derivatives(traffic_objective(model, "A"), params, np.ones(8))
    for path in (model, ByAutograd(model)):
        found = all_at(path, params, np.ones(8))
        for a, b in zip(found[:3], (value, gradient, second), strict=True):
            close(a, b, 1e-9)


T = 16 * BLOCK + 150  # many blocks of lanes, the last one short
SERIES, _ = simulate_traffic(np.random.default_rng(3), T, missing=0.05)
LONGER = PoissonTraffic(SERIES, np.arange(T) // 288 % 7, prior=PRIOR)


@pytest.mark.parametrize("n_folds", [1, N_LANES - 1, N_LANES, N_LANES + 1, 2 * N_LANES + 7])
def test_lanes_give_every_fold_what_it_gets_alone(n_folds):
    rng, sites = np.random.default_rng(4), np.flatnonzero(LONGER.observed)
    scattered = [np.sort(rng.choice(sites, 400, replace=False)) for _ in range(n_folds - 1)]
    folds = Folds([*scattered, sites[1500:2500]])  # the last one contiguous across blocks
    params = np.stack([params_near(i, 0.1) for i in range(n_folds)])
    found = all_of_folds(LONGER, params, folds)
    assert [len(part) for part in found] == [n_folds] * 4
    for i in {0, n_folds // 2, n_folds - 1}:
        *alone, _ = all_at(LONGER, params[i], fold_weights(T, folds[i]))
        alone.append(LONGER.heldout_loss(params[i], folds[i]))
        each = zip(found, alone, (1e-12, 1e-11, 1e-10, 1e-11), strict=True)
        for part, expected, tolerance in each:
            close(part[i], expected, tolerance)


def test_the_largest_count_and_ten_thousand_steps_that_underflow_together_are_summed():
    counts, day = simulate_traffic(np.random.default_rng(0), 60, days=8)
    counts[20] = 10_000
    model = PoissonTraffic(counts, day)
    value, gradient = model.derivatives.value_and_gradient(TRAFFIC_PARAMS, np.ones(60))
    assert_allclose(value, model.objective(TRAFFIC_PARAMS, np.ones(60)), rtol=1e-11)
    assert np.isfinite(gradient).all()
    # Each step costs e^-100 or so: the product is far below the smallest number
    counts = np.tile([0, 60], 5000)
    model = PoissonTraffic(counts, np.zeros(10_000, int))
    params = np.concatenate([np.full(7, -1.0), [3.0, -1.0, 100.0, -100.0]])
    value, gradient = model.derivatives.value_and_gradient(params, np.ones(10_000))
    assert value > 1e5
    slow = derivatives_of(ByAutograd(model)).value_and_gradient(params, np.ones(10_000))
    assert_allclose(value, slow[0], rtol=1e-12)
    close(gradient, slow[1], 1e-10)
    values, gradients = model.derivatives.fold_gradients(params, Folds([[5], [7777]]))
    for i, fold in enumerate([[5], [7777]]):
        alone = model.derivatives.value_and_gradient(params, fold_weights(10_000, fold))
        assert_allclose(values[i], alone[0], rtol=1e-12)
        close(gradients[i], alone[1], 1e-10)


SHORT = {
    "no events": lambda rng: (rng.poisson(10, 1000), np.arange(1000) // 40 % 7),
    "T = 30": lambda rng: simulate_traffic(rng, 30, days=4),
    "all zero": lambda rng: (np.zeros(14), np.arange(14) % 7),
    "one far": lambda rng: (np.tile([0, 50], 7), np.arange(14) % 7),
    "T = 2": lambda rng: (np.array([3, 4]), np.array([0, 1])),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("draw", SHORT.values(), ids=SHORT.keys())
@pytest.mark.filterwarnings("ignore:the default prior")
def test_awkward_counts_fit_or_are_refused_with_the_reason(draw, seed):
    """Without events the density rises for ever; with the prior that the error names they fit."""
    assert eval(SUGGESTED_PRIOR, {"TrafficPrior": TrafficPrior}) == FIRM
    counts, day = draw(np.random.default_rng(seed))
    refused = ""
    try:
        assert fit(PoissonTraffic(counts, day)).newton_decrement <= 1e-6
    except ValueError as error:
        refused = str(error)
    if refused:
        assert re.search("do not tell events from quiet steps|so its rate is not", refused)
        assert "take a longer series, or a prior" in refused
    assert fit(PoissonTraffic(counts, day, prior=FIRM)).newton_decrement <= 1e-6


def test_no_fit_is_refused_whose_other_starts_end_at_an_optimum():
    """From the first start these counts, without events, run to where F is 2555.7 or more."""
    rng = np.random.default_rng(2)
    model = PoissonTraffic(rng.poisson(10, 1000), np.arange(1000) // 40 % 7)
    with pytest.warns(UserWarning, match=r"excess_shape = \(1.0, 0.01\) by 0.*Widen them"):
        found = fit(model)
    assert found.newton_decrement <= 1e-6
    raises("do not tell events from quiet steps", fit, model, start=model.initial_params())


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("value", [-99.0, -38.0, 99.0, -800.0, 800.0])
def test_a_trial_step_far_away_finds_the_true_objective(place, value):
    """Exact folds wander there, and step back: F was nan, as the sum over excesses overflowed."""
    params = TRAFFIC_PARAMS.copy()
    params[place] = value
    own, gradient = SMALL.derivatives.value_and_gradient(params, np.ones(8))
    values, gradients = SMALL.derivatives.fold_gradients(params, SMALL_FOLDS)
    expected = np.full(8, np.inf)  # beyond the numbers
    if abs(value) < 100.0:
        weightings = [np.ones(8), *(fold_weights(8, fold) for fold in SMALL_FOLDS)]
        expected = [SMALL.objective(params, weights) for weights in weightings]
    assert_allclose([own, *values], expected, rtol=1e-12)
    assert np.isfinite(gradient).all()
    assert np.isfinite(gradients).all()


@pytest.mark.parametrize("logits", [(500.0, -600.0), (-800.0, 1e4), (900.0, 1e100)])
def test_where_a_move_is_all_but_impossible_f_is_infinite_and_no_loss_is_had(logits):
    params = np.concatenate([TRAFFIC_PARAMS[:9], logits])
    own = SMALL.derivatives
    assert own.value_and_gradient(params, np.ones(8))[0] == np.inf
    values, gradients = own.fold_gradients(params, Folds([[3], [7]]))
    assert_array_equal(values, np.inf)  # no refit goes there
    assert np.isfinite(gradients).all()
    for function in (own.fold_hessians, own.heldout):
        raises("beyond log rates of 100 or logits of 460", function, params, Folds([[3]]))


@pytest.mark.parametrize("site", [8, 10**9])
def test_a_fold_of_sites_that_are_not_there_is_refused(site):
    folds = Folds([[0], [3, site]])
    own = SMALL.derivatives
    for function in (own.fold_gradients, own.fold_hessians, own.heldout):
        raises(str(site), function, TRAFFIC_PARAMS, folds)
    raises("holds site 2, which is missing", SMALL.heldout_loss, TRAFFIC_PARAMS, np.array([0, 2]))


@pytest.mark.parametrize("n_zeros", [0, 2])
def test_a_fold_that_leaves_no_count_of_a_day_is_named(rng, n_zeros):
    counts, day = simulate_traffic(rng, 800)
    counts[np.flatnonzero(day == 1)[:n_zeros]] = 0
    full = fit(PoissonTraffic(counts, day))
    rest = np.flatnonzero((day == 1) & (counts > 0))
    for method in (exact, newton_step, infinitesimal_jackknife):
        with pytest.warns(UnconvergedFit, match="fold 1 leaves no count above 0 of day 1"):
            result = method(full, [[3], rest])
        assert np.isfinite(result.fold_losses).tolist() == [True, False]
    assert exact(full, [rest[len(rest) // 2 :]]).diagnostics["converged"].all()
    raises("fold 0 leaves no count above 0 of day 1", exact, full, [rest], error=NoFiniteOptimum)
    kept = PoissonTraffic(counts, day, prior=TrafficPrior(day_concentration=2.0))
    assert exact(fit(kept), [rest]).diagnostics["converged"].all()
