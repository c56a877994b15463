"""Certificates hold whatever the data: against refits with 50 digits, and on every model."""

from dataclasses import replace

import gmpy2
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.campaign import rows
from oracles.high_precision import LONG, expanded, sites_of, solved
from oracles.toy_models import OfFunctions
from oracles.wrappers import raises
from scipy.special import gammaln

import acvlib as acv
from acvlib.beyond.certify import _problem
from acvlib.beyond.certify.verified import Metric, NotCertified, choices_range, highest
from acvlib.models import FAMILIES, GLM, GaussianHMM, LinearChainCRF, PairwiseLinear
from acvlib.trials import NoFiniteOptimum
from acvlib.weighting import hide_labels


def regression(rng, family, n=200, dim=5, penalty=1.0, **settings):
    x = rng.normal(size=(n, dim))
    eta = np.clip(0.7 * x @ rng.normal(size=dim), -3.0, 3.0)
    y = {
        "logistic": lambda: rng.random(n) < 1.0 / (1.0 + np.exp(-eta)),
        "multinomial": lambda: np.digitize(eta + rng.logistic(size=n), [-1.0, 1.0]),
        "poisson": lambda: rng.poisson(np.exp(eta)),
    }[family]()
    return GLM(x, y.astype(float), family, penalty=penalty, **settings)


def sentences(rng, n=40, scheme=None):
    lengths = rng.integers(1, 9, n)
    tags = [np.sort(rng.integers(3, size=t)) for t in lengths]
    scores = [rng.normal(size=(len(z), 3)) + 2.0 * np.eye(3)[z] for z in tags]
    return LinearChainCRF(scores, tags, 1.0, scheme)


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


@pytest.mark.parametrize("family", ["logistic", "poisson", "multinomial"])
def test_leave_one_out_is_certified_and_sharp_where_rows_are_ten_times_the_columns(family, rng):
    fit = acv.fit(regression(rng, family, 200, 9), tolerance=1e-9)
    folds = acv.folds.leave_one_out(200)
    exact = acv.exact(fit, folds, tolerance=1e-12)
    result = acv.newton_step(fit, folds)
    for sharp in (False, True):
        certificate = acv.certify(result, sharp=sharp)
        assert certificate.certified.mean() >= 0.99
        assert_inside(certificate, exact)
    true = fit.standard_errors_between(certificate.result.params, exact.params)
    assert np.median(certificate.theta_errors / true) <= 1.05


@pytest.mark.parametrize("method", [acv.infinitesimal_jackknife, acv.newton_step])
@pytest.mark.parametrize("make", [sentences, lambda rng: regression(rng, "multinomial")])
def test_folds_of_many_sites_are_certified_or_refitted(make, method, rng):
    model = make(rng)
    fit = acv.fit(model, tolerance=1e-9)
    for folds in (acv.folds.leave_one_out(model), acv.folds.k_fold(model, 8, rng)):
        exact = acv.exact(fit, folds, tolerance=1e-11)
        result = method(fit, folds)
        before = acv.certify(result)
        complete = acv.certify(result, complete=True)
        assert complete.certified.all()
        assert (complete.refitted | before.certified).all()
        for certificate in (before, complete, acv.certify(result, sharp=True)):
            assert_inside(certificate, exact)


@pytest.mark.parametrize("hazard", ["plain", "units", "counts", "leverage"])
def test_gradients_are_within_their_noise(hazard, rng):
    """Of standard params, for which the columns are taken as they are."""
    checked = 0
    while checked < 3:
        try:
            model = rows(rng, hazard)
            fit = acv.fit(model)
        except (ValueError, np.linalg.LinAlgError):
            continue
        z = model.columns.standard[:, int(model.intercept) :]
        ridge = model.standard_ridge(0.0).reshape(model.n_outputs, -1)[0, int(model.intercept) :]
        model = GLM(z, model.y, model.family, ridge, intercept=model.intercept)
        if not model.columns.plain:
            continue
        fit = acv.fit_at(model, acv.fit(model).params)
        problem = _problem(fit)
        points = fit.params + rng.normal(size=(1, len(fit.params))) * problem.whole.units
        (gradient,), (noise,), _ = problem.gradients(points, acv.Folds([[0, 1]]))
        sites, ridge = sites_of(model)
        truth, _ = expanded(sites[2:], ridge, LONG(points[0]))
        _, metric = expanded(sites, ridge, LONG(fit.params))
        error = gradient - truth
        assert 0.0 < gmpy2.sqrt(error @ solved(metric, error)) <= noise
        checked += 1


@pytest.mark.parametrize("dim", [3, 6])
def test_metrics_bound_lengths_and_shares(dim, rng):
    """Of Hilbert's matrix, whose condition number is 1e7 at 6, in units far apart."""
    scale = 10.0 ** rng.uniform(-8, 8, dim)
    places = np.arange(1.0, dim + 1.0)
    matrix = scale[:, None] * scale / (places[:, None] + places - 1.0)
    metric = Metric(matrix, matrix.diagonal(), 1e-15)
    for _ in range(10):
        v = rng.normal(size=dim) * scale
        assert gmpy2.sqrt(LONG(v) @ solved(LONG(matrix), LONG(v))) <= metric.dual(v[None])[0]
        v = v / scale**2
        assert gmpy2.sqrt(LONG(v) @ LONG(matrix) @ LONG(v)) <= metric.length(v[None])[0]
    assert 0.49 < metric.share(0.5 * matrix) <= 0.5
    assert metric.share(-matrix) == metric.share(np.nan * matrix) == 0.0
    unit = np.eye(dim)
    assert 1.5 < highest(0.5 * unit - 3.0 * unit[0] * unit[:, :1], 1.0) < 1.6
    assert highest(-unit) < 1e-11
    assert highest(np.full((dim, dim), np.inf)) == np.inf
    singular = np.outer(scale, scale)
    raises("singular", Metric, singular, singular.diagonal(), 0.0, error=NotCertified)


@np.errstate(all="ignore")  # as in `certify`
def test_ranges_hold_their_functions():
    odds = np.array([-700.0, -30.0, -1e-3, 0.0, 2.0, 800.0])
    losses = np.logaddexp(0.0, odds)
    low, high = choices_range(losses, 1e-15 * losses, np.full(6, 0.25))
    for side, end, sign in ((low, gmpy2.mpfr("-0.25"), 1), (high, gmpy2.mpfr("0.25"), -1)):
        true = [gmpy2.log1p(gmpy2.exp(each + end)) for each in LONG(odds)]
        assert (sign * (LONG(true) - LONG(side)) >= 0).all()
    fit = acv.fit_at(GLM(np.ones((3, 1)), [0.0, 1.0, 9.0], "poisson", 1.0), np.zeros(2))
    ends = _problem(fit).losses(np.zeros((3, 2)), np.ones(3), acv.folds.leave_one_out(3))
    low, high = ends - gammaln([1.0, 2.0, 10.0])
    assert_allclose(low, [np.exp(-1.0), 1.0, np.e - 9.0], rtol=1e-12)
    assert_allclose(high, [np.e, np.e - 1.0, np.exp(-1.0) + 9.0], rtol=1e-12)


def test_a_fold_that_separates_the_classes_is_never_certified():
    x = np.append(2.5, np.concatenate([np.linspace(-3, -1, 10), np.linspace(1, 3, 10)]))
    y = np.append(0.0, np.repeat([0.0, 1.0], 10))
    fit = acv.fit(GLM(x[:, None], y, "logistic"))
    for method in (acv.no_adjustment, acv.infinitesimal_jackknife, acv.newton_step):
        result = method(fit, acv.folds.leave_one_out(21))
        for sharp in (False, True):
            certificate = acv.certify(result, sharp=sharp)
            assert not certificate.certified[0]
            assert np.isinf(certificate.interval).any()
    raises("separates", acv.certify, result, error=NoFiniteOptimum, complete=True)
    lost = acv.no_adjustment(fit, acv.Folds([[1, 2], [3], [0]]))
    lost.params[1:] = 1e3
    refused = pytest.raises(NotCertified, match=r"1 refits .* fold 2 \(")
    with pytest.warns(UserWarning, match="fold 2"), refused:
        acv.certify(lost, complete=True)


class Own(OfFunctions):
    """A model of a user that claims to be convex."""

    convex = True


def squares(params, weights):
    return weights @ (params[0] - np.arange(4.0)) ** 2


LIKE_LOGISTIC = replace(FAMILIES["logistic"], name="mine")
REFUSED = {
    "HMM": lambda rng: GaussianHMM(rng.normal(size=(30, 1)), 2),
    "LinearChainCRF": lambda rng: sentences(rng, scheme=hide_labels),
    "PairwiseLinear": lambda rng: PairwiseLinear(rng.normal(size=(40, 3)), np.arange(40.0)),
    "GLM gaussian": lambda rng: GLM(rng.normal(size=(9, 1)), np.arange(9.0), "gaussian"),
    "GLM probit": lambda rng: GLM(rng.normal(size=(9, 1)), np.arange(9) % 2, "probit", 1.0),
    "GLM own": lambda rng: GLM(rng.normal(size=(9, 1)), np.arange(9) % 2, LIKE_LOGISTIC, 1.0),
    "GLM balanced": lambda rng: regression(rng, "multinomial", balanced=True),
    "GLM site_penalty": lambda rng: regression(rng, "poisson", site_penalty=0.1),
    "Own": lambda rng: Own(4, squares, lambda params, fold: (params[0] - fold) ** 2),
}


@pytest.mark.filterwarnings("ignore::acvlib.trials.UnconvergedFit")
@pytest.mark.parametrize("name", REFUSED)
def test_models_beyond_the_scope_are_refused_by_name(name, rng):
    model = REFUSED[name](rng)
    fit = acv.fit_at(model, model.initial_params(rng))
    observed = getattr(model, "observed", None)
    result = acv.no_adjustment(fit, acv.folds.k_fold(model.n_sites, 4, rng, observed))
    raises(f"{name.split()[0]}: .*Use acv.exact", acv.certify, result, error=NotCertified)
