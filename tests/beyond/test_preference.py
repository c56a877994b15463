"""No k rows change which model leave-one-out prefers: against exhaustion by exact refits."""

import os
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import acvlib as acv
from acvlib.beyond.preference import _terms, gap
from acvlib.models import GLM

DRAWS = 100 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 4


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


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_no_set_is_below_its_gap(family):
    """And a wrong bound is found out."""
    proved, caught = 0, 0
    for seed in range(DRAWS):
        fits = pair(seed, family)
        gaps = np.concatenate([refitted_gaps(*fits, k) for k in (0, 1, 2)])
        few = slice(0, 1 + fits[0].model.n_sites)
        for sign, each in ((1.0, fits), (-1.0, fits[::-1])):  # the first one worse, then better
            assert gap(*each[::-1], 1) <= (sign * gaps[few]).min() + 1e-9
            assert gap(*each[::-1], 2) <= (sign * gaps).min() + 1e-9
            proved += np.isfinite(gap(*each[::-1], 2))
            caught += forgetful(*each[::-1], 2) > (sign * gaps).min()
    assert proved >= DRAWS / 2
    assert caught


def test_the_same_choice_holds_and_the_set_that_is_found_flips_it():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = rng.random(300) < 1.0 / (1.0 + np.exp(-X @ [0.7, 0.35, 0.0]))
    fits = [acv.fit(GLM(X[:, own], y, penalty=1.0)) for own in ([0, 1], [0, 2])]
    proved, found = acv.same_choice(*fits, 30)
    assert acv.same_choice(*fits[::-1], 30) == (proved, found)
    assert 1 <= proved < found <= 30
    other = acv.fit(GLM(X, ~y, penalty=1.0))
    with pytest.raises(ValueError, match="their y are not equal"):
        acv.same_choice(fits[0], other, 2)
    with pytest.raises(acv.NotCertified, match="gaussian"):
        acv.same_choice(acv.fit(GLM(X, y * 1.0, "gaussian")), fits[0], 2)
    with pytest.raises(ValueError, match="observed rows less those of params"):
        acv.same_choice(*fits, 297)
