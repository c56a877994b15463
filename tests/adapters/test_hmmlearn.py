"""HMMs of hmmlearn, beside hmmlearn itself."""

import logging

import numpy as np
import pytest
from hmmlearn import hmm
from numpy.testing import assert_allclose, assert_array_equal

import acvlib as acv

LENGTHS = [120, 80, 100]
logging.getLogger("hmmlearn").setLevel(logging.ERROR)


def states(rng):
    return np.concatenate([(np.cumsum(rng.random(n) < 0.1) + rng.integers(3)) % 3 for n in LENGTHS])


def continuous(rng):
    z = states(rng)
    return np.array([[0.0, 0.0], [3.0, 1.0], [-2.0, 4.0]])[z] + rng.normal(size=(len(z), 2))


def codes(rng):
    z = states(rng)
    return ((z + (rng.random(len(z)) < 0.3) * rng.integers(0, 4, len(z))) % 5)[:, None]


def counts(rng):
    return rng.poisson(np.array([[1.0, 8.0], [5.0, 5.0], [15.0, 1.0]])[states(rng)])


GAUSSIANS = {
    kind: (hmm.GaussianHMM(3, kind), continuous) for kind in ("diag", "spherical", "full", "tied")
}
MIXTURES = {
    f"mixture {kind}": (hmm.GMMHMM(2, 2, covariance_type=kind), continuous)
    for kind in ("diag", "spherical", "full")
}
OTHERS = {
    "categorical": (hmm.CategoricalHMM(3), codes),
    "poisson": (hmm.PoissonHMM(3), counts),
    **MIXTURES,
}


def fitted(name, seed=1, n_iter=30, tol=1e-2, **settings):
    """(model of hmmlearn, X)."""
    model, data = (GAUSSIANS | OTHERS)[name]
    X = data(np.random.default_rng(seed))
    model = type(model)(**{**model.get_params(), "n_iter": n_iter, "tol": tol, **settings})
    return model.set_params(random_state=3).fit(X, LENGTHS), X


@pytest.mark.parametrize("name", GAUSSIANS | OTHERS)
def test_scores_posteriors_and_paths_are_hmmlearns(name):
    theirs, X = fitted(name)
    model, params = acv.from_hmmlearn(theirs, X, LENGTHS)
    assert model.sites == "sequences"
    new, lengths = X[:150], [90, 60]
    score = theirs.score(X, LENGTHS)
    assert_allclose(-model.sequence_losses(params).sum(), score, rtol=1e-8, atol=1e-8)
    found = -model.sequence_losses(params, (new, lengths)).sum()
    assert_allclose(found, theirs.score(new, lengths), rtol=1e-8, atol=1e-8)
    assert_allclose(model.posterior(params), theirs.predict_proba(X, LENGTHS), atol=1e-8)
    log_p, path = theirs.decode(X, LENGTHS)
    assert_array_equal(model.decode(params).states, path)
    assert_allclose(model.decode(params).log_p.sum(), log_p, rtol=1e-10)
    assert_allclose(model.pack(model.unpack(params)), params, atol=1e-7)


PRIOR = {"startprob_prior": 1.1, "transmat_prior": 1.1}


@pytest.mark.parametrize("name", ["diag", "spherical", "full", "tied", "categorical", "poisson"])
def test_the_optimum_is_hmmlearns(name):
    """Their EM, run on and on, ends where ours does; folds are theirs without a sequence."""
    settings = PRIOR | ({"covars_prior": 0.0} if name in ("full", "tied") else {})
    settings |= {"emissionprob_prior": 1.1} if name == "categorical" else {}
    theirs, X = fitted(name, n_iter=400, tol=-1.0, **settings)  # tol > 0 may stop early
    model, params = acv.from_hmmlearn(theirs, X, LENGTHS)
    fit = acv.fit(model, params)
    assert fit.newton_decrement < 1e-6
    gap = params - fit.params
    assert np.sqrt(gap @ (np.asarray(fit.hessian) @ gap)) < 1e-5  # standard errors
    exact = acv.exact(fit, [[0]], tolerance=1e-8)
    again = type(theirs)(**{**theirs.get_params(), "init_params": ""})
    for attribute in [a for a in vars(theirs) if a.endswith("_") and a != "monitor_"]:
        setattr(again, attribute, np.copy(getattr(theirs, attribute)))
    again.fit(X[120:], LENGTHS[1:])
    assert_allclose(exact.fold_losses, -again.score(X[:120]), rtol=1e-6)


def test_a_flat_optimum_is_hmmlearns():
    theirs, X = fitted("diag", n_iter=400, tol=-1.0)
    model, params = acv.from_hmmlearn(theirs, X, LENGTHS)
    fit = acv.fit(model, params)
    gap = params - fit.params
    assert np.sqrt(gap @ (np.asarray(fit.hessian) @ gap)) < 1e-3


def test_a_single_sequence_is_left_out_by_steps():
    theirs, X = fitted("diag")
    model, params = acv.from_hmmlearn(theirs, X)
    assert (model.sites, model.n_sites) == ("steps", 300)
    assert_allclose(-model.sequence_losses(params).sum(), theirs.score(X), rtol=1e-10)


def test_a_left_to_right_chain_stays_one():
    rng = np.random.default_rng(4)
    X = np.concatenate([np.repeat([0.0, 4.0, 9.0], 20)[:, None] + rng.normal(size=(60, 1))] * 4)
    theirs = hmm.GaussianHMM(3, "diag", init_params="mc", n_iter=30, random_state=0)
    theirs.startprob_ = np.array([1.0, 0.0, 0.0])
    theirs.transmat_ = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]])
    theirs.means_ = np.array([[0.0], [4.0], [9.0]])
    theirs.init_params = "c"
    theirs.fit(X, [60] * 4)
    model, params = acv.from_hmmlearn(theirs, X, [60] * 4)
    fit = acv.fit(model, params)
    named = model.unpack(acv.exact(fit, [[0]]).params[0])
    assert (named.transition[theirs.transmat_ == 0.0] == 0.0).all()
    assert_allclose(-model.sequence_losses(params).sum(), theirs.score(X, [60] * 4), rtol=1e-8)


def test_a_prior_of_ours_may_be_asked_for():
    theirs, X = fitted("diag")
    model, params = acv.from_hmmlearn(theirs, X, LENGTHS, concentration=1.5)
    assert np.isnan(model.fixed).all()
    assert acv.fit(model, params).newton_decrement < 1e-6


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"fitted": hmm.GaussianHMM(2)}, ValueError, "not fitted: call its fit"),
        ({"fitted": hmm.MultinomialHMM(2)}, TypeError, "MultinomialHMM .*: take CategoricalHMM"),
        ({"fitted": 3}, TypeError, "int is no kind of hmmlearn"),
        ({"lengths": [120, 80]}, ValueError, r"X is \(300, 2\) and lengths, .* sum to 200"),
        ({"lengths": [300, 0]}, ValueError, "positive lengths"),
        ({"X": np.ones((300, 3))}, ValueError, "X has 3 columns: this GaussianHMM was fitted to 2"),
        ({"X": np.ones(300)}, ValueError, r"X \(300,\): 2-d"),
    ],
)
def test_what_cannot_be_brought_is_named(change, error, message):
    theirs, X = fitted("diag")
    with pytest.raises(error, match=message):
        acv.from_hmmlearn(**{"fitted": theirs, "X": X, "lengths": LENGTHS} | change)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("diag", {"covariance_type": "round"}, "covariance_type 'round': one of diag"),
        ("diag", {"means_weight": 1.0}, "means_weight is above 0"),
        ("diag", {"covars_prior": [[1.0, 2.0]]}, "covars_prior are"),
        ("poisson", {"lambdas_weight": 1.0}, "lambdas_prior or lambdas_weight is not 0"),
        ("mixture diag", {"covariance_type": "tied"}, "covariance_type 'tied' of a mixture"),
    ],
)
def test_priors_and_covariances_that_are_not_ours_are_named(name, settings, message):
    theirs, X = fitted(name)
    theirs.set_params(**settings)
    with pytest.raises(ValueError, match=message):
        acv.from_hmmlearn(theirs, X, LENGTHS)
