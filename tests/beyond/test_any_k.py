"""Bounds over all sets of rows, and the model that they prefer, against exhaustion."""

import os
from dataclasses import replace
from functools import partial
from itertools import combinations, product

import autograd.numpy as anp
import numpy as np
import pytest
from oracles.wrappers import raises

import acvlib as acv
from acvlib.beyond import any_k
from acvlib.beyond.measures import check_linear
from acvlib.beyond.preference import _terms, gap
from acvlib.models import GLM

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
DRAWS, PAIRS = (200, 100) if NIGHTLY else (4, 4)
FAMILIES = ["logistic", "poisson"]


def drawn(seed, family, n, dim, tails, penalty=1.0):
    """A fit, and a coefficient (dim,), of rows with tails like Student's t of that freedom."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(tails, (n, dim)) if tails else rng.standard_normal((n, dim))
    eta = X @ rng.normal(0.0, 0.3, dim)
    if family == "poisson":
        y = rng.poisson(2.0 * np.exp(np.clip(eta, -3.0, 1.0)))
    else:
        y = rng.random(n) < 1.0 / (1.0 + np.exp(-eta))
        y[:2] = False, True
    fit = acv.fit(GLM(X, y * 1.0, family, penalty=penalty, intercept=bool(seed % 2)))
    return fit, rng.standard_normal(len(fit.params))


def largest_effect(fit, c, sets):
    """The most that any of these sets adds to c'params, by exact refits."""
    params = acv.exact(fit, acv.Folds(sets), tolerance=1e-10).params
    return float(((params - fit.params) @ c).max())


@np.errstate(all="ignore")
def of_region(fit, c, k, least):
    """The bound of one region, without splits."""
    family = any_k.Conclusion(fit, c, fit.model.observed, k)
    family.settle()
    return family.bound(fit.params, least)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_set_is_beyond_its_bound(family):
    proved = 0
    for seed in range(DRAWS):
        fit, c = drawn(seed, family, 14, 2, 0, 1.0 if family == "logistic" else 5.0)
        best = 0.0
        for k in (1, 2, 3):
            best = max(best, largest_effect(fit, c, list(combinations(range(14), k))))
            bounds = [of_region(fit, c, k, share * best) for share in (0.0, 0.5, 1.0)]
            bounds.append(any_k.proved(fit, c, k, 0.9 * best)[0])
            assert best <= min(bounds) * (1.0 + 1e-9)
            proved += np.isfinite(bounds[0])
            assert np.isfinite(bounds[-1])
    assert proved >= DRAWS / 2  # by regions of k > 1 alone


@pytest.mark.parametrize("family", FAMILIES)
def test_local_search_finds_nothing_beyond_it(family):
    proved = 0
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(60, 150))
        k = int(rng.integers(2, 6))
        fit, c = drawn(seed, family, n, 3, 4 if family == "logistic" else 0)
        found = acv.most_influential(fit, lambda p, c=c: p @ c, k, "greedy")
        sets = [found.sites]
        for _ in range(60):
            swapped = found.sites.copy()
            swapped[rng.integers(k)] = rng.choice(np.setdiff1d(np.arange(n), swapped))
            sets.append(swapped)
        best = largest_effect(fit, c, sets)
        bound = of_region(fit, c, k, 0.5 * best)
        assert best <= bound * (1.0 + 1e-9)
        proved += np.isfinite(bound)
    assert proved >= DRAWS / 2


def test_bound_is_close_and_splits_close_what_is_open():
    fit, _ = drawn(0, "logistic", 600, 3, 0)
    found = acv.most_influential(fit, lambda p: p[0], 5, "greedy", certify=True)
    assert found.exact <= found.bound <= 1.05 * found.exact
    fit, c = drawn(2, "logistic", 14, 2, 0, 0.2)
    best = largest_effect(fit, c, list(combinations(range(14), 2)))
    assert not np.isfinite(of_region(fit, c, 2, best))
    assert best <= any_k.proved(fit, c, 2, best)[0] * (1.0 + 1e-9) < np.inf


def test_weights_units_and_missing_rows_are_those_of_the_model(rng):
    X = rng.standard_normal((80, 2)) * [1e4, 1e-3] + [3e5, 0.0]
    y = rng.poisson(2.0, 80)
    weights = rng.uniform(0.5, 1.5, 80)
    weights[:5] = 0.0
    fit = acv.fit(GLM(X, y, "poisson rate", [1e8, 1e-6], sample_weight=weights))
    found = acv.most_influential(fit, lambda p: 1e4 * p[1], 2, certify=True)
    rows = np.argsort(-np.nan_to_num(found.psi))[:20]
    best = 1e4 * largest_effect(fit, np.array([0.0, 1.0, 0.0]), list(combinations(rows, 2)))
    assert best <= found.bound * (1.0 + 1e-9) <= 1.2 * best


def test_highest_is_above_the_largest_eigenvalue(rng):
    matrices = rng.standard_normal((50, 4, 4)) * 10.0 ** rng.uniform(-9, 9, (50, 1, 1))
    matrices += matrices.transpose(0, 2, 1)
    matrices[0] = 0.0
    true = np.maximum(np.linalg.eigvalsh(matrices)[:, -1], 0.0)
    found = np.array([any_k.highest(matrix) for matrix in matrices])
    assert (found >= true).all()
    assert (found <= true * (1.0 + 1e-9) + 1e-10 * np.abs(matrices).max(axis=(1, 2)) + 1e-90).all()
    assert np.isinf(any_k.highest(np.full((2, 2), np.nan)))


def test_robustness_interval_holds_what_exhaustion_says():
    fit, _ = drawn(1, "logistic", 16, 1, 0)
    phi = lambda p: p[1] - 0.05  # noqa: E731
    sign = np.sign(phi(fit.params))
    proved, found = acv.robustness_interval(fit, phi, 4)
    for k in range(1, 5):
        params = acv.exact(fit, acv.Folds(list(combinations(range(16), k)))).params
        flips = (np.sign(params[:, 1] - 0.05) != sign).any()
        assert not (flips and k <= proved)
        assert flips or found is None or k < found
    assert found is None or proved < found
    bare = acv.fit(GLM(np.arange(6.0)[:, None], np.array([0.0, 0, 1, 0, 1, 1])))
    with pytest.raises(ValueError, match=r"no refit without sites \[[23]\]: add a penalty"):
        acv.most_influential(bare, lambda p: p[1], 1)
    assert acv.most_influential(bare, lambda p: -p[1], 1, certify=True).bound == np.inf


BENT = [lambda p: anp.maximum(p[0], -3.0 * p[0]), lambda p: p[0] + 2.0 * anp.abs(p[-1] - 9.0)]
BENT += [lambda p: p[0] if p[0] > -9.0 else 0.0, lambda p: p[0] ** 3, lambda p: p[0] * p[-1]]


def test_what_cannot_be_proved_and_a_phi_that_bends_anywhere_are_refused():
    fit, _ = drawn(0, "logistic", 14, 2, 0)
    of_rows = partial(GLM, fit.model.X, fit.model.y)
    separable = GLM(np.arange(12.0)[:, None], np.arange(12) > 5)
    for model, k, error, message in (
        (fit.model, 12, ValueError, "less than 14 observed rows less 2 params"),
        (of_rows("gaussian"), 2, acv.NotCertified, "Rubinstein"),
        (of_rows(site_penalty=0.1), 2, acv.NotCertified, "logistic: .* without site_penalty"),
        (separable, 2, ValueError, "penalty"),
    ):
        with pytest.raises(error, match=message):
            acv.most_influential(acv.fit(model), lambda p: p[1], k, certify=True)
    with pytest.raises(acv.NotCertified, match="probit: .* logistic and Poisson GLMs"):
        acv.robustness_interval(acv.fit(of_rows("probit", 1.0)), lambda p: p[0], 2)
    for dim, phi in product(range(1, 9), BENT):
        fit, c = drawn(2 * dim, "logistic", 60, dim, 0)
        with pytest.raises(acv.NotCertified, match="may not be linear"):
            acv.most_influential(fit, phi, 2, certify=True)
        check_linear(lambda p, c=c: 2.0 - (c * p[::-1]).sum() / 3.0 + np.sum(p), c)


def pair(seed, family):
    """Fits of a column that matters and one that does not, and of the latter alone."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(9, 13))
    X = rng.standard_normal((n, 2))
    if family == "poisson":
        y = rng.poisson(np.exp(np.clip(0.8 * X[:, 0] + 1.0, -3.0, 3.0)))
    else:
        y = rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * X[:, 0]))
        y[:8] = np.arange(8) % 2
    penalty = (20.0 if family == "poisson" else 2.0) * rng.uniform(0.5, 2.0)
    settings = {"intercept": bool(seed % 2), "sample_weight": rng.uniform(0.5, 1.5, n)}
    model = GLM(X, y * 1.0, family, penalty=penalty, **settings)
    return acv.fit(model), acv.fit(replace(model, X=X[:, 1:]))


def refitted_gaps(fit, other, k):
    """The sums of left-out losses by which one is worse, without each set of k rows."""
    n, weights = fit.model.n_sites, fit.model.sample_weight
    sets = list(combinations(range(n), k))
    rows = np.array([row for each in sets for row in np.setdiff1d(range(n), each)])
    folds = np.column_stack([np.repeat(sets, n - k, axis=0), rows]).astype(int)
    folds = acv.Folds(folds, scored=rows[:, None])
    losses = [acv.exact(each, folds, tolerance=1e-10).fold_losses for each in (fit, other)]
    return (weights[rows] * (losses[0] - losses[1])).reshape(len(sets), -1).sum(axis=1)


@np.errstate(all="ignore")
def forgetful(better, worse, k):
    """A wrong bound: the rows that are dropped take nothing."""
    (low, _), sure, *_ = _terms(worse, k, 1.0)
    (_, high), _, optimism, *_ = _terms(better, k, -1.0)
    return (low + sure - high - optimism).sum()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_set_is_below_its_gap(family):
    proved, caught = 0, 0
    for seed in range(PAIRS):
        fits = pair(seed, family)
        gaps = np.concatenate([refitted_gaps(*fits, k) for k in (0, 1, 2)])
        few = slice(0, 1 + fits[0].model.n_sites)
        for sign, each in ((1.0, fits), (-1.0, fits[::-1])):  # the first one worse, then better
            assert gap(*each[::-1], 1) <= (sign * gaps[few]).min() + 1e-9
            assert gap(*each[::-1], 2) <= (sign * gaps).min() + 1e-9
            proved += np.isfinite(gap(*each[::-1], 2))
            caught += forgetful(*each[::-1], 2) > (sign * gaps).min()
    assert proved >= PAIRS / 2
    assert caught


def test_the_same_choice_holds_and_the_set_that_is_found_flips_it(rng):
    X = rng.standard_normal((300, 3))
    y = rng.random(300) < 1.0 / (1.0 + np.exp(-X @ [0.7, 0.35, 0.0]))
    fits = [acv.fit(GLM(X[:, own], y, penalty=1.0)) for own in ([0, 1], [0, 2])]
    proved, found = acv.same_choice(*fits, 30)
    assert acv.same_choice(*fits[::-1], 30) == (proved, found)
    assert 1 <= proved < found <= 30
    raises("their y are not equal", acv.same_choice, fits[0], acv.fit(GLM(X, ~y, penalty=1.0)), 2)
    with pytest.raises(acv.NotCertified, match="gaussian"):
        acv.same_choice(acv.fit(GLM(X, y * 1.0, "gaussian")), fits[0], 2)
    raises("observed rows less those of params", acv.same_choice, *fits, 297)
