"""Hyperparameters by gradients of exact cross-validation, against grids and closed forms."""

from dataclasses import replace
from functools import partial

import autograd.numpy as anp
import numpy as np
import pytest
from oracles.toy_models import OfFunctions
from oracles.wrappers import raises
from scipy.optimize import minimize

import acvlib as acv
from acvlib.beyond.tune import OtherOptimum
from acvlib.models import GLM, HMM, HiddenMRF, LinearChainCRF, PoissonTraffic
from acvlib.models.traffic.emission import TrafficPrior
from acvlib.weighting import hide_labels

RNG = np.random.default_rng(8)
X = RNG.standard_normal((48, 6))
SIGNAL = X @ [1.0, -1.0, 0.4, 0.2, 0.0, 0.0]
LABELS = (SIGNAL + RNG.standard_normal(48) > 0.0).astype(float)
NOISY = SIGNAL + RNG.standard_normal(48)
GROUP = np.repeat(np.arange(3), 2)
TENTHS = np.arange(48).reshape(12, 4)
STATE = np.repeat(RNG.integers(0, 2, 24), 5)
FRAMES = RNG.standard_normal((120, 1)) + 2.5 * STATE[:, None]
TAGS = [RNG.integers(0, 3, 5) for _ in range(12)]
SCORES = [RNG.standard_normal((5, 3)) for _ in TAGS]
BLOCK = np.repeat(np.arange(3), [3, 9, 3])
WORDS = [[{"w": f"{RNG.integers(5)}", "s": f"{t % 2}"} for t in range(5)] for _ in range(12)]
NAMES = [["ab"[int(RNG.random() < 0.5 + 0.4 * (word["w"] == "1"))] for word in s] for s in WORDS]
CRF = acv.FeatureCRF(WORDS, NAMES)
IS_LINK = CRF.free >= 2 * len(CRF.names)
GRID = np.array([(i, i + 1) for i in range(14)] + [(i, i + 5) for i in range(10)])
CRIMES = RNG.poisson(np.where(np.arange(15) % 5 < 2, 3.0, 9.0))
DAY = np.arange(240) // 35
CARS = RNG.poisson(5.0 + DAY) + (RNG.random(240) < 0.3) * RNG.negative_binomial(3, 0.3, 240)
ONE_EACH = np.arange(48)[:, None]


def ridges(alpha):
    return GLM(X, NOISY, "gaussian", alpha[GROUP], intercept=False)


def closed(log_alpha):
    """The leave-one-out loss of a ridge a group, by the hat matrix."""
    hat = X @ np.linalg.solve(X.T @ X + np.diag(np.exp(log_alpha)[GROUP]), X.T)
    gaps = (NOISY - hat @ NOISY) / (1.0 - np.diag(hat))
    return 0.5 * np.mean(gaps**2) + 0.5 * np.log(2.0 * np.pi)


def test_minimum_is_that_of_the_closed_form_and_what_ends_at_a_bound_is_said():
    found = acv.tune(ridges, np.ones(3), ONE_EACH, bounds=(1e-3, 1e3))
    best = minimize(closed, np.zeros(3), bounds=[(np.log(1e-3), np.log(1e3))] * 3)
    assert found.converged
    assert found.loss == pytest.approx(closed(np.log(found.alpha)), rel=1e-9)
    assert found.loss <= best.fun + 1e-3 * found.result.se
    assert found.loss < min(closed(np.full(3, np.log(a))) for a in np.geomspace(1e-3, 1e3, 49))
    assert len(found.alphas) == len(found.losses)
    assert found.losses[0] == pytest.approx(closed(np.zeros(3)), rel=1e-9)
    assert found.losses.min() == pytest.approx(found.loss, rel=1e-9)
    # Two columns of noise: their ridge runs to the upper bound.
    found = acv.tune(ridges, np.ones(3), ONE_EACH, bounds=(0.5, 20.0))
    assert found.at_bound.any()
    assert np.isin(np.round(found.alpha[found.at_bound], 9), [0.5, 20.0]).all()
    uphill = np.where(found.alpha < 1.0, found.gradient, -found.gradient)
    assert (uphill[found.at_bound] > -1e-9).all()  # there the loss would fall beyond the bound only
    for bounds in ((0.0, 2.0), (0.5, np.inf)):
        raises("must be positive and finite", acv.tune, ridges, np.ones(3), ONE_EACH, bounds=bounds)


def test_an_error_names_the_alpha_and_refits_that_end_elsewhere_are_told(monkeypatch):
    def fails(alpha):
        if alpha[0] != 1.0:
            raise ValueError("no such model")
        return ridges(alpha)

    with pytest.raises(ValueError, match="no such model") as caught:
        acv.tune(fails, np.ones(3), ONE_EACH)
    assert "tune met this at alpha" in caught.value.__notes__[0]

    def elsewhere(fit, folds, tolerance):
        result = acv.exact(fit, folds, tolerance)
        return replace(result, losses=[each + 1e-2 for each in result.losses])

    monkeypatch.setattr("acvlib.beyond.tune.exact", elsewhere)
    with pytest.warns(OtherOptimum, match="two optima"):
        acv.tune(ridges, np.ones(3), ONE_EACH, max_evaluations=1)


def robust_mean(alpha):
    """A robust mean of a user's, whose scale alpha_0 is in F and in the held-out losses."""

    def losses(params):
        return 2.0 * anp.log1p(((NOISY - params[0]) / alpha[0]) ** 2) + anp.log(alpha[0])

    def objective(params, weights):
        return anp.sum(weights * losses(params)) + 0.5 * alpha[1] * params[0] ** 2

    return OfFunctions(48, objective, lambda params, fold: losses(params)[fold])


def chain(alpha, frames=FRAMES, **settings):
    """Concentrations of the initial and of each transition row."""
    sequences = frames.reshape(8, 15, 1) if settings else [frames]
    rows = 1.0 + alpha[:, None]
    return HMM(sequences, 2, concentration=rows, **(settings or {"sites": "steps"}))


def traffic(alpha):
    stays = {"stay_quiet": (2.0 + alpha[1], 2.0), "stay_event": (4.0, 1.0 + alpha[2])}
    return PoissonTraffic(CARS, DAY, prior=TrafficPrior(day_concentration=alpha[0], **stays))


SCORED = acv.Folds([np.arange(9), np.arange(50, 60)], [np.arange(3, 6), np.arange(51, 52)])
CASES = {
    "glm": (lambda a: GLM(X, LABELS, penalty=a[GROUP]), [1.0, 2.0, 0.5], TENTHS),
    "glm, one row": (lambda a: GLM(X, LABELS, penalty=a[GROUP]), [1, 2, 0.5], np.c_[:48]),
    "site penalty": (lambda a: GLM(X, LABELS, penalty=a[0], site_penalty=a[1]), [1, 0.05], TENTHS),
    "sequences": (lambda a: chain(a, sites="sequences"), [0.3, 1.0, 2.0], np.arange(8)[:, None]),
    "steps": (chain, [0.3, 1.0, 2.0], np.arange(120).reshape(6, 20)),
    "scored": (chain, [0.3, 1.0, 2.0], SCORED),
    "traffic": (traffic, [2.0, 3.0, 1.0], np.arange(240).reshape(6, 40)),
    "map": (lambda a: HiddenMRF(CRIMES, GRID, a[0]), [0.3], np.arange(15).reshape(5, 3)),
    "crf": (lambda a: LinearChainCRF(SCORES, TAGS, a[BLOCK]), [1.0, 2.0, 0.5], np.c_[:12]),
    "labels": (
        lambda a: LinearChainCRF(SCORES, TAGS, a[BLOCK], hide_labels),
        [3.0, 2.0, 1.0],
        np.arange(60).reshape(6, 10),
    ),
    "features": (
        lambda a: acv.FeatureCRF(CRF.sentences, NAMES, np.where(IS_LINK, a[0], a[1])),
        [1.0, 2.0],
        np.arange(12).reshape(4, 3),
    ),
    "own": (robust_mean, [1.5, 0.7], TENTHS),
}


def differenced(model_of, alpha, folds, params, way):
    """The slope of the loss along alpha (1 + s way), by differences of fourth order."""

    def loss(share):
        fit = acv.fit(model_of(alpha * (1.0 + share * way)), params, tolerance=1e-9)
        return acv.exact(fit, folds, tolerance=1e-10).loss

    h = 4e-3
    near, far = (loss(s * h) - loss(-s * h) for s in (1, 2))
    return (8.0 * near - far) / (12.0 * h)


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_converged_losses(name):
    model_of, alpha, folds = CASES[name]
    alpha = np.array(alpha, float)
    found = acv.cv_gradient(model_of, alpha, folds, tolerance=1e-9)
    exact = acv.exact(found.fit, folds, tolerance=1e-9)
    assert found.loss == pytest.approx(exact.loss, rel=1e-9)
    way = np.array([1.0, -0.6, 0.8])[: len(alpha)]
    expected = differenced(model_of, alpha, folds, found.fit.params, way)
    scale = np.linalg.norm(found.gradient * alpha)
    assert abs((found.gradient * alpha) @ way - expected) < 1e-6 * scale
    assert not found.unconverged.size


def test_differences_stay_within_the_bounds():
    """At a bound they are one-sided, where beyond it there is no model."""

    def rows(alpha):
        return HMM([FRAMES], 2, sites="steps", concentration=alpha[0])

    folds = np.arange(120).reshape(6, 20)
    free = acv.cv_gradient(lambda a: rows(1.0 + a), [1.0], folds)
    for alpha, bounds in (([2.0], (2.0, 9.0)), ([2.0], (1.0, 2.0))):
        found = acv.cv_gradient(rows, alpha, folds, bounds=bounds)
        np.testing.assert_allclose(found.gradient, free.gradient, rtol=1e-6)
    asked = partial(acv.cv_gradient, robust_mean, [1.5, 0.7], TENTHS, tolerance=1e-9)
    inside, ends = asked(), asked(bounds=([1.5, 0.1], [2, 0.7]))
    np.testing.assert_allclose(ends.gradient, inside.gradient, rtol=1e-6)


def test_near_goes_on_from_another_alpha_of_the_same_kind():
    model_of, alpha, folds = CASES["steps"]
    before = acv.cv_gradient(model_of, alpha, folds)
    there = acv.cv_gradient(model_of, 1.2 * np.array(alpha), folds, near=before)
    afresh = acv.cv_gradient(model_of, 1.2 * np.array(alpha), folds, before.fit.params)
    assert there.loss == pytest.approx(afresh.loss, rel=1e-8)
    np.testing.assert_allclose(there.gradient, afresh.gradient, rtol=1e-5, atol=1e-7)
    before = acv.cv_gradient(lambda a: GLM(X, LABELS, penalty=a[0]), [1.0], TENTHS)
    raises("it is another's", acv.cv_gradient, CASES["glm"][0], np.ones(3), TENTHS, near=before)
    with pytest.raises(TypeError, match="near must be of type CVGradient"):
        acv.cv_gradient(CASES["glm"][0], np.ones(3), TENTHS, near=before.fit)


def of_part(alpha, n_columns=6, shift=0):
    return GLM(X[:, :n_columns], np.roll(LABELS, int(shift)), penalty=alpha[0])


REFUSED = {  # model_of, alpha
    "alpha must be above 0": (of_part, [0.0]),
    "alpha is empty": (lambda a: GLM(X, LABELS), []),
    "other data or size: their y are not equal": (lambda a: of_part(a, 6, a[0] > 1.0), [1.0]),
    "7 and 6 parameters": (lambda a: of_part(a, 5 if a[0] > 1.0 else 6), [1.0]),
    r"alpha\[1\] = 1 changes no": (of_part, [1.0, 1.0]),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_tuned_is_refused(message):
    raises(message, acv.cv_gradient, *REFUSED[message], TENTHS)
