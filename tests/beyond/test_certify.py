"""Certificates hold whatever the data: against refits in extended precision, and on every model."""

import warnings

import numpy as np
import pytest
from acvlib.concordance import balls, excess, largest_kept
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles.refit_long import refit

import acvlib as acv
from acvlib.fit import UnconvergedFit
from acvlib.methods import ladder
from acvlib.models import (
    FAMILIES,
    GLM,
    GaussianHMM,
    LinearChainCRF,
    PairwiseLinear,
    SemiSupervised,
    tweedie,
)
from acvlib.models.semisupervised.affinity import GraphAffinity
from acvlib.models.semisupervised.energy import ManifoldEnergy
from acvlib.trials import NoFiniteOptimum
from acvlib.weighting import hide_labels

METHODS = tuple(ladder.METHODS.values())
DRAWS = {
    "logistic": lambda rng, eta: rng.binomial(1, 1 / (1 + np.exp(-eta))),
    "probit": lambda rng, eta: rng.binomial(1, 1 / (1 + np.exp(-1.6 * eta))),
    "poisson": lambda rng, eta: rng.poisson(np.exp(eta)),
    "gamma": lambda rng, eta: rng.gamma(2.0, np.exp(eta) / 2) + 1e-3,
    "tweedie(1.5)": lambda rng, eta: rng.poisson(np.exp(eta)) * rng.gamma(1.0, 1.0, len(eta)),
}


def problem(rng, family, n, dim, strength, ridge, outliers):
    """A regression; `strength` 5 separates classes nearly, outliers are rows ten times as long."""
    x = rng.normal(size=(n, dim))
    x[: outliers * (n // 10)] *= 10.0
    eta = np.clip(strength * x @ rng.normal(size=dim) / np.sqrt(dim), -4.0, 4.0)
    y = DRAWS[family](rng, eta).astype(float)
    if family in ("logistic", "probit"):
        y[:4] = 0.0, 1.0, 0.0, 1.0
    law = tweedie(1.5) if family == "tweedie(1.5)" else family
    return GLM(x, y, law, penalty=ridge, sample_weight=rng.choice([0.5, 1.0, 2.0], n))


def fit_of(model):
    with np.errstate(all="ignore"):
        return acv.fit(model, tolerance=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    family=st.sampled_from(["logistic", "poisson", "gamma", "tweedie(1.5)"]),
    n=st.integers(12, 60),
    dim=st.integers(1, 4),
    strength=st.sampled_from([0.3, 1.0, 5.0]),
    ridge=st.sampled_from([1e-3, 0.1, 3.0]),
    outliers=st.booleans(),
    method=st.sampled_from(METHODS),
    parts=st.sampled_from([0, 3, 10]),
    sharp=st.booleans(),
)
def test_every_refit_is_where_the_certificate_says(
    seed, family, n, dim, strength, ridge, outliers, method, parts, sharp
):
    rng = np.random.default_rng(seed)
    model = problem(rng, family, n, dim, strength, ridge, outliers)
    fit = fit_of(model)
    folds = acv.folds.k_fold(n, parts, rng) if parts else acv.folds.leave_one_out(n)
    certificate = acv.certify(method(fit, folds), sharp=sharp)
    assert_holds(model, certificate)


def assert_holds(model, certificate):
    """Of every certified fold, params and losses of its refit in extended precision."""
    result = certificate.result
    lower, upper = certificate.lower.losses, certificate.upper.losses
    for number, fold in enumerate(result.folds):
        if not certificate.certified[number]:
            continue
        kept = np.setdiff1d(np.flatnonzero(model.observed), fold)
        exact = refit(model, kept, certificate.centre[number])
        assert exact is not None
        off = (result.params[number] - exact).astype(float)
        errors = result.fit.standard_errors_between(off, 0.0)
        assert errors <= certificate.theta_errors[number]
        centred = (certificate.centre[number] - exact).astype(float)
        assert result.fit.standard_errors_between(centred, 0.0) <= certificate.radius[number]
        losses = model.heldout_loss(exact.astype(float), fold)
        assert (lower[number] <= losses).all()
        assert (losses <= upper[number]).all()


@pytest.mark.parametrize("seed", range(4))
def test_probit_holds_against_refits(seed):
    rng = np.random.default_rng(seed)
    model = problem(rng, "probit", 60, 3, 1.0, 0.3, False)
    fit = fit_of(model)
    for folds in (acv.folds.leave_one_out(60), acv.folds.k_fold(60, 10, rng)):
        exact = acv.exact(fit, folds, tolerance=1e-11)
        certificate = acv.certify(acv.newton_step(fit, folds))
        assert certificate.certified.mean() > 0.9
        assert_inside(certificate, exact)


def assert_inside(certificate, exact, slack=1e-9):
    """Exact refits, of the given accuracy, against every certified fold."""
    seen = certificate.certified
    errors = exact.fit.standard_errors_between(certificate.result.params, exact.params)
    assert (errors <= certificate.theta_errors + slack)[seen].all()
    low, high = certificate.loss_interval.T
    assert ((low - slack <= exact.fold_losses) & (exact.fold_losses <= high + slack))[seen].all()
    if seen.all():
        low, high = certificate.interval
        assert low - slack <= exact.loss <= high + slack


def test_leave_one_out_is_certified_and_sharp_where_rows_are_ten_times_the_columns():
    rng = np.random.default_rng(0)
    for family in ("logistic", "poisson"):
        model = problem(rng, family, 200, 20, 0.7, 1.0, False)
        fit = fit_of(model)
        folds = acv.folds.leave_one_out(200)
        exact = acv.exact(fit, folds, tolerance=1e-12)
        certificate = acv.certify(acv.newton_step(fit, folds), sharp=True)
        assert certificate.certified.mean() >= 0.99
        true = fit.standard_errors_between(certificate.result.params, exact.params)
        assert np.median(certificate.theta_errors / true) <= 1.05
        assert_inside(certificate, exact)


def crf(rng, n=40, ridge=1.0, scheme=None):
    lengths = rng.integers(1, 9, n)
    tags = [np.sort(rng.integers(3, size=t)) for t in lengths]
    scores = [
        rng.normal(size=(t, 3)) + 2.0 * np.eye(3)[z] for t, z in zip(lengths, tags, strict=True)
    ]
    return LinearChainCRF(scores, tags, ridge, scheme)


def semi(rng, loss):
    x = rng.normal(size=(60, 3))
    y = np.where(rng.random(60) < 0.5, np.sign(x[:, 0] + 0.5 * rng.normal(size=60)), np.nan)
    near = np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(axis=2))
    energy = ManifoldEnergy(x, GraphAffinity(near))
    return SemiSupervised(energy, y, loss, 1.0, 0.1, 0.05)


def ranking(rng, loss="ranking"):
    x = rng.normal(size=(40, 3))
    y = x[:, 0] + 0.5 * rng.normal(size=40)
    return PairwiseLinear(x, np.sign(y) if loss == "contrastive" else y, loss, gamma_i=0.05)


@pytest.mark.parametrize("method", [acv.infinitesimal_jackknife, acv.newton_step])
def test_sentences_hold_against_refits(method):
    rng = np.random.default_rng(2)
    model = crf(rng)
    fit = acv.fit(model, tolerance=1e-9)
    for folds in (
        acv.folds.leave_one_out(model.n_sites),
        acv.folds.k_fold(model.n_sites, 8, rng),
    ):
        exact = acv.exact(fit, folds, tolerance=1e-11)
        for sharp in (False, True):
            certificate = acv.certify(method(fit, folds), sharp=sharp)
            assert certificate.certified.mean() >= 0.95
            assert_inside(certificate, exact)


def test_third_derivatives_are_within_the_rates():
    """D H[u](v, v), by differences, is at most rate |u| v'Hv: the inequality of step 2."""
    rng = np.random.default_rng(3)
    model = crf(rng)
    fit = acv.fit(model)
    known = model.derivatives.concordance(fit)
    rate = known.whole_rates.max()
    ones = np.ones(model.n_sites)
    H = np.asarray(fit.hessian)
    for _ in range(20):
        u = np.linalg.solve(known.factor.T, rng.normal(size=len(H)))
        u /= fit.standard_errors_between(u, 0.0)
        v = rng.normal(size=len(H))
        ends = [
            np.asarray(model.derivatives.hessian(fit.params + s * u, ones)) for s in (-1e-4, 1e-4)
        ]
        third = v @ (ends[1] - ends[0]) @ v / 2e-4
        assert abs(third) <= rate * (v @ H @ v) * (1 + 1e-5)


@pytest.mark.parametrize("family", [*FAMILIES, tweedie(1.3)])
def test_third_derivatives_of_families_are_within_their_steepness(family):
    family = FAMILIES.get(family, family)
    eta = np.linspace(-8.0, 8.0, 2001)
    for y in (0.0, 1.0) if family.name in ("logistic", "probit") else (0.7, 3.0):
        y = np.full(len(eta), y)
        ratio = abs(family.third(eta, y)) / family.curvature(eta, y)
        bound = 1.0 if family.self_concordant else family.steepness(eta, 0.0, y)
        assert (ratio <= bound + 1e-9).all()
        if family.steepness:
            assert (np.diff(family.steepness(eta, 0.0, y)) * (2 * y[1:] - 1) >= 0).all()


def test_gradients_are_within_their_noise_of_those_in_extended_precision(rng):
    x = rng.normal(size=(3000, 4)) * 10.0 ** rng.uniform(-3, 3, size=(3000, 1))
    y = (rng.random(3000) < 0.5).astype(float)
    model = GLM(x, y, "logistic", penalty=1.0)
    fit = acv.fit(model)
    folds = acv.Folds(np.arange(40)[:, None])
    params = fit.params + rng.normal(size=(40, 5)) / np.sqrt(np.diag(fit.metric))
    known = model.derivatives.concordance(fit)
    _, gradients = model.derivatives.fold_gradients(params, folds, values=False)
    design = model.design.astype(np.longdouble)
    for theta, gradient, omitted, noise in zip(
        params, gradients, folds.omitted, known.noise(params, folds), strict=True
    ):
        slope = 1 / (1 + np.exp(-(design @ theta.astype(np.longdouble)))) - y
        slope[omitted] = 0.0
        error = gradient - (slope @ design + model.prior * theta.astype(np.longdouble))
        assert 0.0 < known.lengths(error.astype(float)[None])[0] <= noise < 1e-9


def test_rates_of_a_fold_are_bounded_and_the_largest_is_exact(rng):
    model = problem(rng, "logistic", 400, 6, 1.0, 0.1, 1)
    fit = fit_of(model)
    known = model.derivatives.concordance(fit)
    fold = acv.Folds([np.arange(30, 90)])
    H = model.derivatives.fold_hessians(fit.params[None] + 0.1, fold)
    share = H.least_shares(known.factor)[0]
    rates = known.rates(H.matrices[0])
    bounds = known.own_rates(H.matrices[0], share)
    assert (bounds >= rates * (1 - 1e-12)).all()
    assert bounds.max() == pytest.approx(rates.max(), rel=1e-12)


def test_a_certificate_needs_no_converged_fit():
    rng = np.random.default_rng(4)
    model = problem(rng, "logistic", 80, 4, 1.0, 1.0, False)
    folds = acv.folds.k_fold(80, 10, rng)
    exact = acv.exact(fit_of(model), folds, tolerance=1e-11)
    for params in acv.fit_path(model):
        fit = acv.fit_at(model, params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnconvergedFit)
            result = acv.newton_step(fit, folds)
        certificate = acv.certify(result)
        errors = fit.standard_errors_between(result.params, exact.params)
        assert (errors <= certificate.theta_errors + 1e-9)[certificate.certified].all()
    assert certificate.certified.all()


def separable():
    """Two classes that only row 0 keeps from being separated."""
    x = np.append(2.5, np.concatenate([np.linspace(-3, -1, 10), np.linspace(1, 3, 10)]))
    y = np.append(0.0, np.repeat([0.0, 1.0], 10))
    return GLM(x[:, None], y, "logistic")


def test_a_fold_that_separates_the_classes_is_never_certified():
    model = separable()
    fit = acv.fit(model)
    for method in METHODS[:4]:
        result = method(fit, acv.folds.leave_one_out(21))
        for sharp in (False, True):
            certificate = acv.certify(result, sharp=sharp)
            assert not certificate.certified[0]
            assert np.isinf(certificate.interval).any()
    with pytest.raises(NoFiniteOptimum, match="separates"):
        acv.certify(result, complete=True)


def test_complete_refits_what_is_not_certified_and_width_what_is_wide():
    rng = np.random.default_rng(0)
    model = problem(rng, "logistic", 50, 4, 5.0, 1e-2, True)
    fit = fit_of(model)
    folds = acv.folds.k_fold(50, 10, rng)
    result = acv.no_adjustment(fit, folds)
    exact = acv.exact(fit, folds, tolerance=1e-11)
    before = acv.certify(result)
    complete = acv.certify(result, complete=True)
    assert complete.certified.all()
    assert (complete.refitted | before.certified).all()
    assert_inside(complete, exact)
    narrow = acv.certify(result, width=1e-4)
    assert narrow.width <= 1e-4 <= complete.width
    assert complete.refitted.sum() <= narrow.refitted.sum()
    assert_inside(narrow, exact)


def test_the_result_stays_as_it_was(rng):
    """A fold without params is looked at later than the others."""
    model = problem(rng, "logistic", 60, 3, 1.0, 1.0, 0)
    result = acv.newton_step(fit_of(model), acv.folds.k_fold(60, 5))
    result.params[0] = np.nan
    before = result.params.copy()
    assert acv.certify(result, sharp=True).certified[1:].all()
    assert_allclose(result.params, before, rtol=0.0)


def test_excess_is_what_the_proof_has():
    x = np.array([0.0, 1e-12, 1e-6, 1e-3, 0.0099, 0.0101, 0.5, 0.97])
    powers = np.arange(1, 3000)
    truth = (x[:, None] ** powers / (powers + 1)).sum(axis=1)  # -log(1 - x) / x - 1
    assert (excess(x) >= truth * (1 - 1e-12)).all()
    assert_allclose(excess(x), truth, rtol=2e-4)


@given(st.lists(st.integers(0, 5), min_size=4, max_size=12), st.integers(1, 3))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_the_largest_kept_value(values, size):
    values = np.array(values, float)
    rng = np.random.default_rng(len(values))
    table = np.array([rng.choice(len(values), size, replace=False) for _ in range(5)])
    expected = [np.delete(values, fold).max() for fold in table]
    assert_allclose(largest_kept(values, acv.Folds(table)), expected)
    assert_allclose(largest_kept(values, acv.Folds([*table, np.array([0])]))[:5], expected)


def test_a_singular_fold_has_no_ball():
    x = np.column_stack([np.arange(8.0), np.eye(8)[0]])
    model = GLM(x, np.arange(8.0) % 2, "logistic", penalty=1e-40)
    fit = acv.fit(model)
    folds = acv.Folds([[0], [1]])
    points = np.tile(fit.params, (2, 1))
    known = model.derivatives.concordance(fit)
    found = balls(model.derivatives, known, fit.params, points, folds)
    assert np.isinf(found.radius).all() or np.isinf(found.radius[0])
    one = balls(model.derivatives, known, fit.params, points[:1], folds[:1])
    one.reach[0] = 0.5  # of an array of its own: what is learnt later is written there
    assert np.isinf([one.own_radius, one.radius, one.gap]).all()


def hmm(rng):
    return GaussianHMM(rng.normal(size=(30, 1)), 2)


class Own:
    """A convex model of a user, of which nothing is known."""

    n_sites = 4
    convex = True

    def objective(self, params, weights):
        return weights @ (params[0] - np.arange(4.0)) ** 2

    def heldout_loss(self, params, fold):
        return (params[0] - fold) ** 2

    def initial_params(self, rng=None):
        return np.zeros(1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (hmm, "not convex"),
        (lambda rng: crf(rng, scheme=hide_labels), "hide_labels"),
        (lambda rng: GLM(rng.normal(size=(9, 1)), np.arange(9.0), "gaussian"), "GLM .* as cheap"),
        (lambda rng: semi(rng, "square"), "use acv.exact, which is exact and as cheap"),
        (lambda rng: semi(rng, "logistic"), "SemiSupervised: no bound"),
        (lambda rng: ranking(rng), "PairwiseLinear: no bound"),
        (lambda rng: ranking(rng, "contrastive"), "not convex"),
        (lambda rng: Own(), "no bound on its third derivatives"),
    ],
)
def test_models_without_a_bound_are_refused_by_name(make, reason):
    rng = np.random.default_rng(0)
    model = make(rng)
    fit = acv.fit_at(model, model.initial_params(rng))
    folds = acv.folds.k_fold(model.n_sites, 4, rng, getattr(model, "observed", None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnconvergedFit)
        result = acv.no_adjustment(fit, folds)
    with pytest.raises(acv.NotConcordant, match=reason):
        acv.certify(result)


def test_bad_arguments_are_named():
    rng = np.random.default_rng(0)
    fit = fit_of(problem(rng, "logistic", 30, 2, 1.0, 1.0, False))
    result = acv.newton_step(fit, acv.folds.leave_one_out(30))
    with pytest.raises(ValueError, match="width"):
        acv.certify(result, width=0.0)
    with pytest.raises(TypeError, match="CVResult"):
        acv.certify(fit)


def test_models_are_compared_by_what_is_proved():
    rng = np.random.default_rng(1)
    full = problem(rng, "logistic", 120, 3, 1.0, 1.0, False)
    small = GLM(full.X[:, :1], full.y, "logistic", penalty=1.0, sample_weight=full.sample_weight)
    folds = acv.folds.k_fold(120, 10, rng)
    proved, exact = {}, {}
    for name, model in {"full": full, "small": small}.items():
        fit = fit_of(model)
        proved[name] = acv.certify(acv.newton_step(fit, folds), complete=True)
        exact[name] = acv.exact(fit, folds, tolerance=1e-11)
    table = acv.compare_models(proved)
    truth = acv.compare_models(exact)
    assert (table.elpd_low <= truth.elpd).all()
    assert (truth.elpd <= table.elpd_high).all()
    assert (table.diff_low <= truth.elpd_diff).all()
    assert (truth.elpd_diff <= table.diff_high).all()
    mixed = acv.compare_models({"full": proved["full"], "small": exact["small"]})
    assert mixed.elpd_low["small"] == mixed.elpd_high["small"] == mixed.elpd["small"]


def test_probit_is_accurate_far_from_its_class():
    """A certificate takes curvatures for right to rounding; logarithms had lost 1e-9 here."""
    margin = np.array([-50.0, -200.0])
    y = np.zeros(2)
    curvature = FAMILIES["probit"].curvature(-margin, y)
    series = 1.0 - margin**-2 + 6.0 * margin**-4 - 50.0 * margin**-6
    assert_allclose(curvature, series, rtol=2e-11)
