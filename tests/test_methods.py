"""The ladder: each rung against closed forms, central differences of tight refits, rates and scipy.

`RIDGE` is quadratic and linear in the weights, `LOGISTIC` linear in the weights only, the traffic model
neither; `INSTRUMENTS` is an estimating equation in closed form, `CURVED` one that is not linear.
"""

import inspect
import warnings

import joblib
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import Counting, WithoutFast

import acvlib as acv
from acvlib import derivatives as curvature
from acvlib.derivatives import IndefiniteHessian
from acvlib.fit import UnconvergedFit, newton_decrement
from acvlib.methods.newton_step import IndefiniteFold
from acvlib.models import PoissonTraffic
from acvlib.solvers.newton import refine
from acvlib.weighting import drop_latents

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.standard_normal(60)
U = X + RNG.standard_normal((60, 3))
RIDGE, LOGISTIC = oracles.Ridge(X, Y), oracles.Logistic(X, np.sign(Y))
INSTRUMENTS, CURVED = oracles.Instruments(U, X, Y), oracles.CurvedInstruments(U, X, np.exp(0.2 * Y))
SMALL = {"ridge": RIDGE, "logistic": LOGISTIC, "instruments": INSTRUMENTS, "curved": CURVED}
FOLDS = [np.array([3]), np.arange(10), np.array([59, 20, 21, 40])]
TIGHT = 1e-9
METHODS = [
    acv.no_adjustment,
    acv.infinitesimal_jackknife,
    acv.frozen_newton,
    acv.newton_step,
    acv.exact,
]
SERIES = oracles.simulate_traffic(np.random.default_rng(1), 800)
TRAFFIC, DROPPING = PoissonTraffic(*SERIES), PoissonTraffic(*SERIES, drop_latents)


@pytest.fixture(scope="module")
def fits():
    """Full fits of the small models, tight enough for differences of refits."""
    return {name: acv.fit(model, tolerance=TIGHT) for name, model in SMALL.items()}


@pytest.fixture(scope="module")
def traffic_fit():
    return acv.fit(TRAFFIC, tolerance=TIGHT)


@pytest.fixture(scope="module")
def traffic_folds():
    rng = np.random.default_rng(2)
    scattered = acv.folds.iid(800, 10, 20, rng, TRAFFIC.observed)
    return scattered + acv.folds.contiguous(800, 5, 20, rng, TRAFFIC.observed)


@pytest.fixture(scope="module")
def traffic_exact(traffic_fit, traffic_folds):
    return acv.exact(TRAFFIC, traffic_fit, traffic_folds)


class AtWeights:
    """A model whose base weights are `base`: what its weight 1 means."""

    def __init__(self, model, base):
        self.model, self.base, self.n_sites = model, base, model.n_sites
        if hasattr(model, "residual"):
            self.residual = lambda params, weights: model.residual(params, weights * base)

    def objective(self, params, weights):
        return self.model.objective(params, weights * self.base)

    @property
    def fast(self):
        return getattr(self.model, "fast", None) and self

    def value_and_gradient(self, params, weights):
        return curvature.value_and_gradient(self.model, params, weights * self.base)

    def hessian_and_cross(self, params, weights):
        return curvature.hessian_and_cross(self.model, params, weights * self.base)


def tight_refit(model, params, weights):
    """argmin F(., weights) near params, to a decrement of 1e-11, tested in test_refine.py."""
    state = refine(AtWeights(model, weights), params[None], [np.array([], int)], 1e-11)
    assert state.converged.all()
    return state.params[0]


def left_out(model, fold, share=1.0):
    """Weights with a share of a fold's weight taken away."""
    weights = np.ones(model.n_sites)
    weights[fold] -= share
    return weights


# the infinitesimal jackknife


@pytest.mark.parametrize("name", SMALL)
def test_jackknife_is_the_derivative_of_tight_refits(name, fits):
    model, fit, h = SMALL[name], fits[name], 1e-4
    step = acv.infinitesimal_jackknife(model, fit, FOLDS).params - fit.params
    for i, fold in enumerate(FOLDS):
        ahead, behind = (tight_refit(model, fit.params, left_out(model, fold, s)) for s in (h, -h))
        assert_allclose(
            step[i], (ahead - behind) / (2 * h), rtol=0, atol=1e-6 * np.abs(step[i]).max()
        )


@pytest.mark.parametrize("model", [TRAFFIC, DROPPING], ids=["A", "B"])
def test_jackknife_is_the_derivative_of_tight_refits_of_traffic(model, traffic_fit):
    """Weights above 1 are refused, so that the difference is one-sided: its error is O(h^4)."""
    fold, h = np.flatnonzero(model.observed)[200:210], 0.004
    step = acv.infinitesimal_jackknife(model, traffic_fit, [fold]).params[0] - traffic_fit.params
    at = [tight_refit(model, traffic_fit.params, left_out(model, fold, i * h)) for i in range(5)]
    slope = np.array([-25, 48, -36, 16, -3]) @ np.array(at) / (12 * h)
    assert_allclose(step, slope, rtol=0, atol=1e-6 * np.abs(step).max())


def errors_at_shares(model, fit, fold, step, shares):
    """SE distance of fit + share * step from the refit with that share of the fold's weight taken away."""
    refits = [tight_refit(model, fit.params, left_out(model, fold, share)) for share in shares]
    guesses = [fit.params + share * step for share in shares]
    return np.array(
        [fit.standard_errors_between(a, b) for a, b in zip(refits, guesses, strict=True)]
    )


CASES = ["ridge", "logistic", "instruments", "curved", "traffic A", "traffic B"]


def case(name, fits, traffic_fit):
    """(model, fit, a fold) of a name in CASES."""
    if name.startswith("traffic"):
        model = TRAFFIC if name.endswith("A") else DROPPING
        return model, traffic_fit, np.flatnonzero(model.observed)[300:340]
    return SMALL[name], fits[name], FOLDS[1]


@pytest.mark.parametrize("name", CASES)
def test_half_the_perturbation_gives_a_quarter_of_the_jackknifes_error(name, fits, traffic_fit):
    model, fit, fold = case(name, fits, traffic_fit)
    step = acv.infinitesimal_jackknife(model, fit, [fold]).params[0] - fit.params
    errors = errors_at_shares(model, fit, fold, step, [0.02, 0.01, 0.005])
    assert ((errors[:-1] / errors[1:] > 3.5) & (errors[:-1] / errors[1:] < 4.5)).all(), errors


@pytest.mark.parametrize("name", CASES)
def test_negative_control_no_adjustment_only_halves_its_error(name, fits, traffic_fit):
    model, fit, fold = case(name, fits, traffic_fit)
    errors = errors_at_shares(model, fit, fold, np.zeros_like(fit.params), [0.02, 0.01, 0.005])
    assert ((errors[:-1] / errors[1:] > 1.8) & (errors[:-1] / errors[1:] < 2.2)).all(), errors


def test_jackknife_by_fast_path_equals_jackknife_by_autograd(traffic_fit, traffic_folds):
    fast, slow = (
        acv.infinitesimal_jackknife(m, traffic_fit, traffic_folds)
        for m in (TRAFFIC, WithoutFast(TRAFFIC))
    )
    assert traffic_fit.standard_errors_between(fast.params, slow.params).max() < 1e-9
    assert_allclose(fast.fold_losses, slow.fold_losses, rtol=1e-11)


# the frozen step


@pytest.mark.parametrize("name", SMALL)
def test_for_linear_weights_one_frozen_step_is_the_jackknife(name, fits):
    frozen = acv.frozen_newton(SMALL[name], fits[name], FOLDS, rescale=False)
    jackknife = acv.infinitesimal_jackknife(SMALL[name], fits[name], FOLDS)
    assert_allclose(frozen.params, jackknife.params, rtol=0, atol=1e-9)


def test_for_linear_weights_the_two_differ_only_by_the_gradient_at_the_fit(fits):
    """From any point: frozen - jackknife = -H^-1 gradient, to 1e-10, whether the fit has converged or not."""
    fit = acv.fit_at(LOGISTIC, fits["logistic"].params + 0.3)
    with pytest.warns(UnconvergedFit):
        frozen = acv.frozen_newton(LOGISTIC, fit, FOLDS, rescale=False)
    with pytest.warns(UnconvergedFit):
        jackknife = acv.infinitesimal_jackknife(LOGISTIC, fit, FOLDS)
    _, gradient = curvature.value_and_gradient(LOGISTIC, fit.params, np.ones(60))
    gap = np.tile(-np.linalg.solve(fit.metric, gradient), (3, 1))
    assert_allclose(frozen.params - jackknife.params, gap, rtol=0, atol=1e-10)


def test_negative_control_for_traffic_the_frozen_step_is_not_the_jackknife(
    traffic_fit, traffic_folds
):
    frozen = acv.frozen_newton(TRAFFIC, traffic_fit, traffic_folds, rescale=False)
    jackknife = acv.infinitesimal_jackknife(TRAFFIC, traffic_fit, traffic_folds)
    assert traffic_fit.standard_errors_between(frozen.params, jackknife.params).max() > 0.01


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_repeated_frozen_steps_converge_to_the_exact_refit(name, rescale, fits):
    fit, exact = fits[name], acv.exact(SMALL[name], fits[name], FOLDS, tolerance=TIGHT)
    rows = [
        acv.frozen_newton(SMALL[name], fit, FOLDS, steps=s, rescale=rescale).params
        for s in (1, 2, 4, 60)
    ]
    errors = [fit.standard_errors_between(row, exact.params).max() for row in rows]
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < 1e-7


def test_repeated_frozen_steps_converge_to_the_exact_refit_of_traffic(
    traffic_fit, traffic_folds, traffic_exact
):
    rows = [
        acv.frozen_newton(TRAFFIC, traffic_fit, traffic_folds[:20], steps=s).params
        for s in (1, 3, 60)
    ]
    errors = [
        np.median(traffic_fit.standard_errors_between(row, traffic_exact.params[:20]))
        for row in rows
    ]
    assert errors[0] > 2 * errors[1]
    assert errors[2] < 2e-6


def test_rescaling_divides_the_step_by_the_share_that_is_kept(fits):
    plain = (
        acv.frozen_newton(RIDGE, fits["ridge"], FOLDS, rescale=False).params - fits["ridge"].params
    )
    scaled = acv.frozen_newton(RIDGE, fits["ridge"], FOLDS).params - fits["ridge"].params
    assert_allclose(scaled * np.array([[59.0], [50.0], [56.0]]) / 60, plain, rtol=1e-12)


# the Newton step


@pytest.mark.parametrize("name", ["ridge", "instruments"])
def test_one_newton_step_is_exact_for_a_linear_problem_from_anywhere(name):
    model = SMALL[name]
    with pytest.warns(UnconvergedFit):
        step = acv.newton_step(model, acv.fit_at(model, np.array([5.0, -1.0, 2.0])), FOLDS)
    expected = [model.solution(left_out(model, fold)) for fold in FOLDS]
    assert_allclose(step.params, expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["logistic", "traffic A"])
def test_half_the_distance_gives_a_quarter_of_the_newton_steps_error(name, fits, traffic_fit):
    """Newton's method converges quadratically: started at distance d from the optimum it ends O(d^2) away."""
    model, fit, fold = case(name, fits, traffic_fit)
    optimum = tight_refit(model, fit.params, left_out(model, fold))
    away = (
        0.05
        * np.linalg.eigh(np.linalg.inv(fit.metric))[1][:, -1]
        / np.sqrt(np.linalg.eigvalsh(fit.metric)[0])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnconvergedFit)
        starts = [acv.fit_at(model, optimum + scale * away) for scale in (1.0, 0.5, 0.25)]
        ends = np.array([acv.newton_step(model, start, [fold]).params[0] for start in starts])
    errors = fit.standard_errors_between(ends, optimum)
    assert ((errors[:-1] / errors[1:] > 3.5) & (errors[:-1] / errors[1:] < 4.5)).all(), errors


def test_newton_step_reports_the_smallest_eigenvalue_of_each_fold(fits):
    result = acv.newton_step(RIDGE, fits["ridge"], FOLDS)
    hessians = [(X.T * left_out(RIDGE, fold)) @ X + np.eye(3) for fold in FOLDS]
    expected = [np.linalg.eigvalsh(hessian)[0] for hessian in hessians]
    assert_allclose(result.diagnostics["smallest_eigenvalue"], expected, rtol=1e-12)
    equation = acv.newton_step(INSTRUMENTS, fits["instruments"], FOLDS)
    assert np.isnan(equation.diagnostics["smallest_eigenvalue"]).all()


# exact


@pytest.mark.parametrize("name", ["ridge", "instruments"])
def test_exact_is_the_closed_form_where_there_is_one(name, fits):
    result = acv.exact(SMALL[name], fits[name], FOLDS)
    expected = np.array([SMALL[name].solution(left_out(RIDGE, fold)) for fold in FOLDS])
    assert fits[name].standard_errors_between(result.params, expected).max() < 1e-6


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("kind", ["objective", "equation"])
def test_fit_and_exact_do_not_depend_on_the_units_of_the_parameters(kind, unit):
    """Regressors in nanometres or in kilometres: the same answer, in standard errors."""
    if kind == "objective":
        same, model = LOGISTIC, oracles.Logistic(unit * X, LOGISTIC.y, unit**2)
    else:
        same, model = INSTRUMENTS, oracles.Instruments(U, unit * X, Y)
    fit = acv.fit(model)
    refits = acv.exact(model, fit, FOLDS).params
    expected = acv.fit(same, tolerance=TIGHT)
    assert expected.standard_errors_between(fit.params * unit, expected.params) < 1e-6
    for params, fold in zip(refits, FOLDS, strict=True):
        refitted = tight_refit(same, expected.params, left_out(same, fold))
        assert expected.standard_errors_between(params * unit, refitted) < 1e-6


def test_exact_equals_refitting_by_scipy(fits):
    result = acv.exact(LOGISTIC, fits["logistic"], FOLDS)
    for params, fold in zip(result.params, FOLDS, strict=True):
        refitted = oracles.refit(LOGISTIC.objective, np.zeros(3), left_out(LOGISTIC, fold))
        assert fits["logistic"].standard_errors_between(params, refitted) < 1e-6


def test_exact_equals_deleting_the_sites_and_refitting_by_scipy(
    traffic_fit, traffic_folds, traffic_exact
):
    """Scheme A: left out is as good as never counted."""
    for i in (0, 25, 33):
        counts = TRAFFIC.counts.copy()
        counts[traffic_folds[i]] = -1
        deleted = PoissonTraffic(counts, TRAFFIC.day)
        refitted = oracles.refit(deleted.objective, traffic_fit.params, np.ones(800), gtol=1e-7)
        assert traffic_fit.standard_errors_between(traffic_exact.params[i], refitted) < 1e-6


def test_every_exact_fold_is_at_an_optimum(traffic_folds, traffic_exact):
    _, gradients = curvature.fold_gradients(TRAFFIC, traffic_exact.params, traffic_folds)
    hessians = curvature.fold_hessians(TRAFFIC, traffic_exact.params, traffic_folds)
    decrements = [newton_decrement(g, h) for g, h in zip(gradients, hessians, strict=True)]
    assert np.max(decrements) <= 1e-6
    assert (np.linalg.eigvalsh(hessians)[:, 0] > 0).all()
    assert traffic_exact.diagnostics["converged"].all()
    assert (traffic_exact.diagnostics["decrement"] <= 1e-6).all()
    assert (traffic_exact.diagnostics["smallest_eigenvalue"] > 0).all()


def test_exact_by_autograd_and_for_scheme_b(traffic_fit, traffic_folds, traffic_exact):
    slow = acv.exact(WithoutFast(TRAFFIC), traffic_fit, traffic_folds[:2])
    assert traffic_fit.standard_errors_between(slow.params, traffic_exact.params[:2]).max() < 2e-6
    dropped = acv.exact(DROPPING, traffic_fit, traffic_folds[-1:])
    refitted = oracles.refit(
        DROPPING.objective, traffic_fit.params, left_out(DROPPING, traffic_folds[-1]), gtol=1e-7
    )
    assert traffic_fit.standard_errors_between(dropped.params[0], refitted) < 1e-6


def separable():
    """Two classes that only site 0 keeps from being separable: without it the optimum is far off."""
    x = np.concatenate([[-3.0], np.linspace(0.5, 2.0, 40)])[:, None]
    return oracles.Logistic(x, np.ones(41), penalty=1e-4)


def test_exact_follows_a_fold_that_needs_many_steps():
    model = separable()
    fit = acv.fit(model)
    result = acv.exact(model, fit, [np.array([0]), np.array([5])])
    refitted = oracles.refit(model.objective, np.array([15.0]), left_out(model, [0]), gtol=1e-12)
    assert refitted[0] > 4 * fit.params[0]
    assert result.diagnostics["steps"][0] > 6 > result.diagnostics["steps"][1]
    assert result.diagnostics["converged"].all()
    assert fit.standard_errors_between(result.params[0], refitted) < 1e-5
    baseline = acv.infinitesimal_jackknife(model, fit, result.folds)
    assert fit.standard_errors_between(baseline.params[0], refitted) > 1.0


def test_exact_warns_once_of_folds_that_do_not_converge():
    """Without its first site, this model has no minimum: F falls for ever as theta grows."""
    model = separable()
    model.penalty = 0.0
    fit = acv.fit(model)
    with pytest.warns(
        UnconvergedFit, match="exact: 2 of 3 folds did not converge; largest decrement"
    ) as record:
        result = acv.exact(
            model, fit, [np.array([0]), np.array([5]), np.array([0, 1])], tolerance=1e-12
        )
    assert len(record) == 1
    assert record[0].filename == __file__
    assert_array_equal(result.diagnostics["converged"], [False, True, False])


# the order of the rungs, and the baseline


def test_no_adjustment_keeps_the_full_fit(fits):
    result = acv.no_adjustment(RIDGE, fits["ridge"], FOLDS)
    assert_array_equal(result.params, np.tile(fits["ridge"].params, (3, 1)))
    assert_allclose(result.pointwise[1], (Y - X @ fits["ridge"].params)[:10] ** 2 / 2, rtol=1e-13)


def test_higher_rungs_of_the_traffic_model_are_nearer_to_exact(
    traffic_fit, traffic_folds, traffic_exact
):
    rungs = [method(TRAFFIC, traffic_fit, traffic_folds) for method in METHODS[:4]]
    table = acv.compare(traffic_exact, *rungs)["theta_error"]
    assert table["exact"] == 0.0
    assert table["newton_step"] < table["frozen_newton"] < table["infinitesimal_jackknife"]
    assert table["frozen_newton"] < table["no_adjustment"]


@settings(max_examples=25)
@given(st.lists(st.sets(st.integers(0, 59), min_size=1, max_size=20), min_size=1, max_size=4))
def test_all_rungs_of_a_quadratic_agree_with_the_closed_form_as_they_promise(sets):
    folds, fit = [np.array(sorted(s)) for s in sets], acv.fit(RIDGE, tolerance=TIGHT)
    closed = np.array([RIDGE.solution(left_out(RIDGE, fold)) for fold in folds])
    error = [
        fit.standard_errors_between(method(RIDGE, fit, folds).params, closed) for method in METHODS
    ]
    assert error[3].max() < 1e-8
    assert error[4].max() < 1e-6
    assert (error[1] < error[0] + 1e-12).all()


# results


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_results_are_complete_and_consistent(method, fits):
    result = method(RIDGE, fits["ridge"], FOLDS)
    assert result.method == method.__name__
    assert result.params.shape == (3, 3)
    assert [len(losses) for losses in result.pointwise] == [1, 10, 4]
    for params, fold, losses in zip(result.params, FOLDS, result.pointwise, strict=True):
        assert_array_equal(losses, RIDGE.heldout_loss(params, fold))
    assert_allclose(result.fold_losses, [losses.sum() for losses in result.pointwise], rtol=1e-15)
    assert_allclose(result.loss, result.fold_losses.mean(), rtol=1e-15)
    assert_allclose(result.se, result.fold_losses.std(ddof=1) / np.sqrt(3), rtol=1e-14)
    assert result.seconds > 0.0
    assert all(np.shape(column) == (3,) for column in result.diagnostics.values())
    defaults = {
        k: p.default
        for k, p in inspect.signature(method).parameters.items()
        if p.default is not p.empty
    }
    assert result.settings == defaults


def test_results_show_themselves(fits):
    result = acv.exact(RIDGE, fits["ridge"], FOLDS)
    frame = result.to_frame()
    assert list(frame.columns) == [
        "size",
        "loss",
        "step_se",
        "decrement",
        "smallest_eigenvalue",
        "steps",
        "converged",
    ]
    assert_array_equal(frame["size"], [1, 10, 4])
    assert_allclose(
        frame["step_se"], fits["ridge"].standard_errors_between(result.params, fits["ridge"].params)
    )
    assert "exact" in result._repr_html_()
    assert f"{result.loss:.6g}" in result._repr_html_()


def test_a_single_fold_has_no_standard_error(fits):
    assert np.isnan(acv.exact(RIDGE, fits["ridge"], FOLDS[:1]).se)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_an_unsorted_fold_keeps_its_order(method, fits):
    shuffled, ordered = (
        method(RIDGE, fits["ridge"], [np.array(fold)]) for fold in ([40, 7, 21], [7, 21, 40])
    )
    assert_allclose(shuffled.pointwise[0], ordered.pointwise[0][[2, 0, 1]], rtol=1e-10)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_folds_in_one_table_give_what_folds_in_a_list_give(method, traffic_fit, traffic_folds):
    listed = method(TRAFFIC, traffic_fit, traffic_folds[:20])
    table = method(TRAFFIC, traffic_fit, np.array(traffic_folds[:20]))
    assert_array_equal(listed.params, table.params)
    assert all(map(np.array_equal, listed.pointwise, table.pointwise))
    assert acv.compare(listed, table)["theta_error_max"].max() == 0.0


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_the_same_seed_gives_the_same_bits(method):
    results = []
    for _ in range(2):
        model = PoissonTraffic(*oracles.simulate_traffic(np.random.default_rng(3), 600))
        folds = acv.folds.iid(600, 10, 5, np.random.default_rng(4), model.observed)
        results.append(method(model, acv.fit(model), folds))
    assert_array_equal(results[0].params, results[1].params)
    assert all(map(np.array_equal, results[0].pointwise, results[1].pointwise))
    assert results[0].evaluations == results[1].evaluations


@pytest.mark.parametrize("model", [TRAFFIC, WithoutFast(TRAFFIC)], ids=["fast", "autograd"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_two_threads_give_identical_results(method, model, traffic_fit, traffic_folds):
    folds = traffic_folds if model is TRAFFIC else traffic_folds[:3]
    alone = method(model, traffic_fit, folds)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        together = method(model, traffic_fit, folds)
    assert_array_equal(alone.params, together.params)
    assert all(map(np.array_equal, alone.pointwise, together.pointwise))
    assert alone.evaluations == together.evaluations


def test_no_sum_is_ordered_by_where_its_arrays_lie_in_memory(
    traffic_fit, traffic_folds, traffic_exact
):
    """A compiler that may reorder sums takes one of two orders, by the addresses that two threads happen to get."""
    with joblib.parallel_config(backend="threading", n_jobs=2):
        runs = [acv.exact(TRAFFIC, traffic_fit, traffic_folds) for _ in range(20)]
    assert all(np.array_equal(run.params, traffic_exact.params) for run in runs)


@pytest.mark.parametrize("name", [*SMALL, "traffic"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_evaluations_are_what_the_model_was_asked_for(
    method, name, fits, traffic_fit, traffic_folds
):
    model, fit, folds = (
        (SMALL[name], fits[name], FOLDS) if name in SMALL else (TRAFFIC, traffic_fit, traffic_folds)
    )
    counting = Counting(model)
    said = method(counting, fit, folds).evaluations
    hessians = said["hessian"] + said["hessian_and_cross"]
    assert set(said) <= {"gradient", "hessian", "hessian_and_cross", "heldout"}
    assert counting.calls["heldout"] == said["heldout"] == len(folds)
    if name in SMALL:
        assert counting.calls["objective"] == said["gradient"] + hessians
    else:
        assert counting.calls["gradient"] == said["gradient"]
        assert counting.calls["hessian"] == hessians


def test_each_rung_costs_what_the_ladder_promises(fits):
    result = {
        method.__name__: method(LOGISTIC, fits["logistic"], FOLDS).evaluations for method in METHODS
    }
    assert result["no_adjustment"] == {"heldout": 3}
    assert result["infinitesimal_jackknife"] == {"hessian_and_cross": 1, "heldout": 3}
    assert result["frozen_newton"] == {"hessian": 1, "gradient": 3, "heldout": 3}
    assert result["newton_step"] == {"hessian": 3, "gradient": 3, "heldout": 3}
    assert (
        acv.frozen_newton(LOGISTIC, fits["logistic"], FOLDS, steps=4).evaluations["gradient"] == 12
    )


# compare


def test_compare_reports_loss_and_parameter_errors(fits):
    exact, base = (method(RIDGE, fits["ridge"], FOLDS) for method in (acv.exact, acv.no_adjustment))
    table = acv.compare(exact, base)
    gap = fits["ridge"].standard_errors_between(base.params, exact.params)
    assert list(table.index) == ["exact", "no_adjustment"]
    assert table.loc["exact", ["relative_error", "theta_error", "theta_error_max"]].tolist() == [
        0.0,
        0.0,
        0.0,
    ]
    relative = np.abs(base.fold_losses - exact.fold_losses) / exact.fold_losses
    assert_allclose(table.loc["no_adjustment", "relative_error"], relative.mean(), rtol=1e-14)
    assert_allclose(table.loc["no_adjustment", "theta_error"], np.median(gap), rtol=1e-14)
    assert_allclose(table.loc["no_adjustment", "theta_error_max"], gap.max(), rtol=1e-14)
    assert_allclose(table["loss"], [exact.loss, base.loss], rtol=1e-15)
    assert "3 heldout" in table.loc["no_adjustment", "evaluations"]


@pytest.mark.parametrize(
    "others", [FOLDS[:2], FOLDS[::-1], [*FOLDS[:2], np.array([59, 20, 21, 41])]]
)
def test_results_on_different_folds_are_not_compared(others, fits):
    ours, theirs = (acv.no_adjustment(RIDGE, fits["ridge"], folds) for folds in (FOLDS, others))
    with pytest.raises(
        ValueError, match="no_adjustment and no_adjustment were run on different folds"
    ):
        acv.compare(ours, theirs)


# bad input


BAD_FOLDS = [[], [[]], [[0], [60]], [[-1]], [[4, 4]], [[0.5]], [np.arange(60)]]


@pytest.mark.parametrize(
    "folds", BAD_FOLDS, ids=["none", "empty", "large", "negative", "repeated", "float", "all"]
)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_every_method_refuses_bad_folds(method, folds, fits):
    with pytest.raises(ValueError, match="fold"):
        method(RIDGE, fits["ridge"], folds)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_every_method_refuses_a_fold_with_a_missing_site(method, traffic_fit):
    missing = np.flatnonzero(~TRAFFIC.observed)[0]
    with pytest.raises(ValueError, match=f"fold 1 holds site {missing}, which is missing"):
        method(TRAFFIC, traffic_fit, [[0], [missing]])


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_an_unconverged_fit_is_allowed_and_warned_of_once_with_its_decrement(method, fits):
    fit = acv.fit_at(RIDGE, fits["ridge"].params + 0.1)
    expected = f"{method.__name__}: Newton decrement {fit.newton_decrement:.3g} is above 1e-06"
    with pytest.warns(UnconvergedFit, match=expected) as record:
        result = method(RIDGE, fit, FOLDS)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert np.isfinite(result.loss)


@pytest.mark.parametrize("method", [acv.infinitesimal_jackknife, acv.frozen_newton])
def test_an_indefinite_hessian_is_refused_unless_damped(method):
    model = oracles.Saddle(X[:, :2], Y)
    fit = acv.fit_at(model, np.zeros(2))
    message = r"smallest eigenvalue is -1.*pass damping > 1"
    with pytest.warns(UnconvergedFit, match="inf"), pytest.raises(IndefiniteHessian, match=message):
        method(model, fit, FOLDS)
    with pytest.warns(UnconvergedFit):
        damped = method(model, fit, FOLDS, damping=1.5)
    assert damped.settings["damping"] == 1.5


def test_newton_step_marks_indefinite_folds_and_warns_once():
    model = oracles.Saddle(X[:, :2], Y)
    fit = acv.fit_at(model, np.zeros(2))
    with pytest.warns((IndefiniteFold, UnconvergedFit)) as record:
        result = acv.newton_step(model, fit, FOLDS)
    ours = [w for w in record if w.category is IndefiniteFold]
    assert len(ours) == 1
    assert "3 of 3 folds" in str(ours[0].message)
    assert "fold 0" in str(ours[0].message)
    assert ours[0].filename == __file__
    assert (result.diagnostics["smallest_eigenvalue"] < 0).all()


def test_exact_does_not_take_a_saddle_for_an_optimum():
    model = oracles.Saddle(X[:, :2], Y)
    fit = acv.fit_at(model, np.zeros(2))
    with pytest.warns(UnconvergedFit) as record:
        result = acv.exact(model, fit, FOLDS)
    assert ["3 of 3 folds did not converge" in str(w.message) for w in record] == [False, True]
    assert not result.diagnostics["converged"].any()


# the protocols


def test_models_answer_to_their_protocols():
    assert all(isinstance(model, acv.WeightedModel) for model in (RIDGE, LOGISTIC, TRAFFIC))
    assert all(isinstance(model, acv.EstimatingEquation) for model in (INSTRUMENTS, CURVED))
    assert not isinstance(INSTRUMENTS, acv.WeightedModel)
    assert not isinstance(RIDGE, acv.EstimatingEquation)


def test_fits_and_results_cannot_be_changed(fits):
    with pytest.raises(AttributeError):
        fits["ridge"].params = np.zeros(3)
    with pytest.raises(AttributeError):
        acv.no_adjustment(RIDGE, fits["ridge"], FOLDS).method = "exact"


def test_methods_leave_fit_and_folds_as_they_were(fits):
    fit, params, folds = (
        fits["logistic"],
        fits["logistic"].params.copy(),
        [fold.copy() for fold in FOLDS],
    )
    for method in METHODS:
        method(LOGISTIC, fit, folds)
    assert_array_equal(fit.params, params)
    assert all(map(np.array_equal, folds, FOLDS))
