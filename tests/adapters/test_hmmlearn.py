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


KINDS = ("diag", "spherical", "full", "tied")
MODELS = {kind: (hmm.GaussianHMM(3, kind), continuous) for kind in KINDS}
MODELS |= {f"mixture {k}": (hmm.GMMHMM(2, 2, covariance_type=k), continuous) for k in KINDS[:3]}
MODELS |= {"categorical": (hmm.CategoricalHMM(3), codes), "poisson": (hmm.PoissonHMM(3), counts)}


def fitted(name, seed=1, n_iter=30, tol=1e-2, **settings):
    """(model of hmmlearn, X)."""
    model, data = MODELS[name]
    X = data(np.random.default_rng(seed))
    model = type(model)(**{**model.get_params(), "n_iter": n_iter, "tol": tol, **settings})
    return model.set_params(random_state=3).fit(X, LENGTHS), X


def flat(name, covariance):
    """A fit whose state 1 has a covariance that has no inverse."""
    model, _ = fitted(name, covars_prior=0.0, covars_weight=1.0)
    model._covars_[1] = covariance
    return model


@pytest.mark.parametrize("name", MODELS)
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


def test_a_single_sequence_is_left_out_by_steps():
    theirs, X = fitted("diag")
    model, params = acv.from_hmmlearn(theirs, X)
    assert (model.sites, model.n_sites) == ("steps", 300)
    assert_allclose(-model.sequence_losses(params).sum(), theirs.score(X), rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"fitted": hmm.GaussianHMM(2)}, ValueError, "not fitted: call its fit"),
        ({"fitted": hmm.MultinomialHMM(2)}, TypeError, "MultinomialHMM .*: take CategoricalHMM"),
        ({"fitted": fitted("diag", transmat_prior=0.5)[0]}, ValueError, "transmat_prior is 0.5: b"),
        ({"fitted": flat("diag", 0.0)}, ValueError, "covariance 1 is singular, or an sd in it 0"),
        ({"fitted": flat("full", np.ones((2, 2)))}, ValueError, "covariance 1 is singular"),
        ({"X": np.ones((300, 3))}, ValueError, "X has 3 columns: this GaussianHMM was fitted to 2"),
    ],
)
def test_what_cannot_be_brought_is_named(change, error, message):
    theirs, X = fitted("diag")
    with pytest.raises(error, match=message):
        acv.from_hmmlearn(**{"fitted": theirs, "X": X, "lengths": LENGTHS} | change)


def test_the_rarest_state_tells_how_a_prior_pulls():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2))
    X[::500] = 20.0 + 0.1 * rng.normal(size=(10, 2))
    model = hmm.GaussianHMM(2, "full", covars_prior=0.0)  # never fitted, but set
    model.startprob_, model.transmat_ = np.array([0.9, 0.1]), np.array([[0.9, 0.1], [0.9, 0.1]])
    model.means_, model.covars_ = np.array([[0.0, 0], [20, 20]]), np.eye(2) * [[[1.0]], [[0.01]]]
    assert acv.from_hmmlearn(model, X)[0].n_states == 2
    with pytest.raises(ValueError, match="pulls one by 0.22 standard errors"):
        acv.from_hmmlearn(model.set_params(covars_prior=0.01), X)
