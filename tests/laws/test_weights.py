"""Law 5: a weight is a count: weight 2 is a site twice, and weight 0 is no site."""

from functools import partial

import numpy as np
import pytest
from hmmlearn import hmm

import acvlib as acv
from acvlib import models
from acvlib.weighting import LookedBackAt

from .doors import DOORS, real_frames
from .law import RNG, Said, ask, cases, hold, refused, same, taken

WEIGHED = [name for name, door in DOORS.items() if door.weight]
ALONE = {"losses", "prediction", "coef", "params", "posterior", "states", "mean", "sd", "rate"}
ALONE |= {"mended", "interval", "leverage", "psi"}  # the last two of one copy


@cases("weights", WEIGHED, "2 is twice")
def test_weight_two_is_a_site_twice(name):
    """What is said of each site, and of parameters. A mean over sites counts each once, whatever it
    weighs: where all that a door says are means, every site is there twice.
    """
    door = DOORS[name]
    says_means_alone = not ALONE & ask(door.ask, **door.data(np.random.default_rng(0))).keys()

    @hold(door.examples, rng=RNG)
    def check(rng):
        data = door.data(rng)
        counts = rng.integers(1, 4, len(data["fold"]))
        if says_means_alone:
            counts[:] = 2
        twice = taken(data, door, door.sites, np.repeat(np.arange(len(counts)), counts))
        found = ask(door.ask, **data | {door.weight: counts * 1.0})
        found = taken(found, door, door.sites, np.repeat(np.arange(len(counts)), counts))
        expected = ask(door.ask, **twice)
        shared = ALONE & expected.keys() or expected.keys()
        same(*({key: each[key] for key in shared} for each in (found, expected)), door.share)


@cases("weights", WEIGHED, "0 is absent")
def test_weight_zero_is_no_site(name):
    """A site of weight 0 may hold anything that its kind allows."""
    door = DOORS[name]

    @hold(door.examples, rng=RNG)
    def check(rng):
        data = door.data(rng)
        n = len(data["fold"])
        gone = rng.choice(n, 1 + n // 12, replace=False)
        kept = np.setdiff1d(np.arange(n), gone)
        weight = np.ones(n)
        weight[gone] = 0.0
        junk = {door.weight: weight}
        if name == "FeatureCRF":  # a label that no other sentence has
            pairs = zip(data["tags"], weight, strict=True)
            junk["tags"] = [np.where(w, own, 3) for own, w in pairs]
        found = taken(ask(door.ask, **data | junk), door, door.sites, kept)
        same(found, ask(door.ask, **taken(data, door, door.sites, kept)), door.share)


@cases("weights", ["GLM logistic", "GLM poisson", "HMM"], "of any size")
def test_refits_end_as_near_under_small_weights(name):
    """Where standard errors are wide, a millionth of one is no good tolerance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = rng.poisson(np.exp(0.5 * X[:, 0])) * 1.0

    flat = models.hmm.emissions.Gaussian(np.inf, variance_prior=(-1.0, 0.0))
    make = {
        "HMM": partial(models.HMM, [X], 1, flat),
        "GLM logistic": partial(models.GLM, X, y > 0),
        "GLM poisson": partial(models.GLM, X, y, "poisson"),
    }

    def told(weight):
        result = acv.exact(acv.fit(make[name](sample_weight=weight)), acv.folds.k_fold(60, 6))
        return {"losses": Said(result.pointwise, result.se)}

    same(told(1e-9), told(1.0))


NEAR = ["cv_gradient", "tune", "bootstrap.refits", "most_influential", "check_result"]


@cases("weights", NEAR, "of any size")
def test_searches_end_as_near_under_small_weights(name):
    """The penalty goes with the weights."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    counts = np.random.default_rng(1).multinomial(60, [1 / 60] * 60, 3)
    folds = acv.folds.k_fold(60, 6)

    def told(unit):
        def model_of(alpha):
            noisy = X[:, 0] > np.sin(np.arange(60))
            return models.GLM(X, noisy, penalty=alpha[0] * unit, sample_weight=unit)

        fit = acv.fit(model_of([1.0]))
        if name == "bootstrap.refits":
            return acv.bootstrap.refits(fit, counts)
        if name == "most_influential":
            return acv.most_influential(fit, lambda params: params[1], 3, "greedy").path
        if name == "check_result":
            return acv.check_result(acv.no_adjustment(fit, folds)).theta_errors
        found = getattr(acv, name)(model_of, [2.0], folds)
        return found.loss if name == "tune" else np.append(found.loss, 1e-3 * found.gradient)

    np.testing.assert_allclose(told(1e-9), told(1.0), rtol=1e-6, atol=0.0)


@cases("weights", ["HMM", "GaussianHMM"], "0 is missing, whatever stands there")
def test_a_frame_of_weight_zero_is_a_missing_frame(name):
    """-999 in a third of all frames sets no unit, no start and no prior."""

    @hold(5, rng=RNG)
    def check(rng):
        x = np.concatenate([real_frames(rng, np.arange(40) // 10 % 2) for _ in range(3)])
        gone = rng.random(len(x)) < 0.3
        known = np.where(rng.random(len(x)) < 0.1, x[:, 0] > 4.0, np.nan)  # of those, too
        known = known if name == "GaussianHMM" else None
        kind = partial(getattr(models, name), sites="steps", known_states=known)
        folds = acv.folds.k_fold(len(x), 4, observed=~gone)

        def told(model):
            result = acv.exact(acv.fit(model, tolerance=1e-10), folds, tolerance=1e-10)
            return {"losses": Said(result.pointwise, result.se)}

        marked, missing = (np.where(gone[:, None], value, x) for value in (-999.0, np.nan))
        weighed = ask(told, kind([marked], 2, sample_weight=(~gone) * 1.0))
        same(weighed, ask(told, kind([missing], 2)))


@cases("weights", ["from_hmmlearn"], "of what counts decide")
def test_what_expected_counts_decide_is_by_weight(name):
    """Of hmmlearn's fits: which priors are slight, and which probabilities are kept."""
    rng = np.random.default_rng(0)
    z = np.tile(np.arange(20) // 10, 60)
    X, weight = real_frames(rng, z)[:, :2], np.r_[1, 3, np.zeros(58, int)]
    copies = X[: 20 * 2].reshape(2, 20, 2)[[0, 1, 1, 1]].reshape(-1, 2), [20] * 4
    full = hmm.GaussianHMM(2, "full", random_state=0, startprob_prior=2.0, transmat_prior=2.0)
    full.fit(X, [20] * 60)
    full.covars_prior = 0.2 * np.linalg.eigvalsh(full.covars_).min()  # slight beside all frames
    acv.from_hmmlearn(full, X, [20] * 60)
    for given in (copies, (X, [20] * 60, weight)):
        assert refused(_fixed, full, *given, words="covars_prior")
    flat = hmm.GaussianHMM(2, random_state=0).fit(X, [20] * 60)
    flat.means_, flat.covars_ = np.zeros((2, 2)), np.ones((2, 2))  # 60 starts are not rare
    for p in (1e-9, 4e-3, 0.1):
        flat.startprob_ = np.array([1.0 - p, p])
        found = [_fixed(flat, *given) for given in (copies, (X, [20] * 60, weight))]
        np.testing.assert_array_equal(*found)
        assert np.isnan(found[0][0, 1]) == (p == 0.1)


def _fixed(theirs, X, lengths, weight=1.0):
    return acv.from_hmmlearn(theirs, X, lengths, sample_weight=weight)[0].fixed


@cases("weights", ["AutoRegressiveHMM"], "0 is looked back at")
def test_a_frame_of_weight_zero_that_predicts_others_is_named(name):
    x = np.random.default_rng(0).normal(size=(30, 1))
    weight = np.ones(29)
    for gone in ([0], [28], [10, 11]):  # without context; nothing follows frame 28
        weight[:] = 1.0
        weight[gone] = 0.0
        kind = partial(models.AutoRegressiveHMM, n_states=1, sites="steps", sample_weight=weight)
        if gone != [28]:
            with pytest.warns(LookedBackAt, match=f"{gone[-1] + 1} looks back at frame {gone[-1]}"):
                kind([x])
        holes = x.copy()
        holes[1:][gone] = np.nan
        kind([x] if gone == [28] else [holes])
    model = models.AutoRegressiveHMM([x], 1, sites="steps")
    acv.from_scratch(acv.fit(model), acv.folds.k_fold(29, 3), 1)  # as all folds do, without a word


@cases("weights", ["choose"], "0 is not compared")
def test_outcomes_of_weight_zero_are_not_compared(name):
    """An exposure of 0 has no count, and a site without weight may hold anything."""
    rng = np.random.default_rng(0)
    exposure = 1.0 * rng.integers(1, 4, 30)
    exposure[3] = 0.0
    counts = 1.0 * rng.poisson(2.0 * exposure + 1)
    others = np.where(exposure > 0.0, counts, 77.0)
    X = rng.normal(size=(30, 1))
    seen = (exposure > 0.0) * 1.0
    of_counts = partial(models.GLM, X, family="poisson", sample_weight=seen)
    of_unit = counts / np.maximum(exposure, 1.0)
    rates = models.GLM(X, of_unit, "poisson rate", sample_weight=exposure)
    x = [rng.normal(size=(10, 1)) for _ in range(3)]
    frames = partial(models.GaussianHMM, n_states=1, sites="steps", sample_weight=seen)
    moved = [np.where(seen.reshape(3, 10, 1)[k] > 0, own, 5.0) for k, own in enumerate(x)]
    folds = acv.folds.k_fold(30, 5, observed=seen)
    for one, other in (
        (of_counts(y=counts), of_counts(y=others)),
        (rates, of_counts(y=others)),
        (frames(x), frames(moved)),
    ):
        assert np.isfinite(acv.choose([one, other], folds).table.elpd).all()
    others[4] += 1.0
    assert refused(acv.choose, [of_counts(y=counts), of_counts(y=others)], folds)


@pytest.mark.parametrize("door", [models.GLM.objective, lambda m, *at: m.derivatives.hessian(*at)])
def test_a_balanced_class_without_weight_is_named(door):
    """Its weights are a share of nothing: 0 / 0."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = models.GLM(X, np.arange(30) % 3, "multinomial", penalty=1.0, balanced=True)
    with pytest.raises(models.NoFiniteOptimum, match="weights leave no site of class 1"):
        door(model, model.initial_params(), 1.0 * (model.y != 1))
