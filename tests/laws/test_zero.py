"""Law 6: zero is zero: it costs infinity, is no parameter, survives fit, decode and adapters."""

import numpy as np
import pytest
from hmmlearn import hmm
from hypothesis import strategies as st
from oracles.enumerate import scored_paths
from scipy import stats
from scipy.special import logsumexp

import acvlib as acv
from acvlib import models
from acvlib.models.hmm.emissions import Categorical

from .doors import TIGHT
from .law import RNG, ask, cases, hold, refused

NAN = np.nan
CHAINS = {  # initial, then the transition matrix
    "absorbing": [[1, 0], [NAN, NAN], [0, 1]],
    "left to right": [[1, 0, 0], [NAN, NAN, 0], [0, NAN, NAN], [0, 0, 1]],
    "cycle": [[NAN, NAN, NAN], [NAN, NAN, 0], [0, NAN, NAN], [NAN, 0, NAN]],
}


def walks(rng, fixed, n=10, length=24):
    """Paths (n, length) of a chain that stays with probability .85 and never makes a move of 0."""
    p = np.where(np.isnan(fixed), 0.0, fixed)
    k = p.shape[1]
    for row, own in enumerate(p):
        open_ = np.isnan(np.asarray(fixed, float)[row])
        stay = 0.85 * (np.arange(k) == row - 1) * open_
        moves = (1 - stay.sum()) * (1 - (stay > 0)) / max(1, (stay == 0)[open_].sum())
        own[open_] = (stay + moves)[open_]
    out = []
    for _ in range(n):
        z = [rng.choice(k, p=p[0] / p[0].sum())]
        while len(z) < length:
            z.append(rng.choice(k, p=p[z[-1] + 1] / p[z[-1] + 1].sum()))
        out.append(np.array(z))
    return out


def emit(name, rng, z):
    if name == "GaussianHMM":
        return 4.0 * z + rng.normal(size=len(z))
    if name == "PoissonHMM":
        return rng.poisson(1.0 + 9 * z)
    return np.where(rng.random(len(z)) < 0.8, z, rng.integers(0, 3, len(z)))


def log_densities(name, named, x):
    """(T, K)."""
    if name == "GaussianHMM":
        return stats.norm.logpdf(np.reshape(x, (-1, 1)), named.mean[:, 0], named.sd[:, 0])
    if name == "PoissonHMM":
        return stats.poisson.logpmf(np.reshape(x, (-1, 1)), named.rate[:, 0])
    return np.log(named.probability[:, np.ravel(x).astype(int)].T)


def by_enumeration(initial, transition, dense):
    """(log p, P(state) (T, K), the best path), over all paths."""
    with np.errstate(divide="ignore"):
        every, log_p = scored_paths(dense, np.log(initial), np.log(transition))
    share = np.exp(log_p - logsumexp(log_p))
    states = np.tensordot(share, np.eye(len(initial))[every], 1)
    return logsumexp(log_p), states, every[np.argmax(log_p)]


KINDS = ("GaussianHMM", "PoissonHMM", "CategoricalHMM")


def chain_model(name, rng, fixed):
    z = walks(rng, fixed)
    x = [emit(name, rng, own) for own in z]
    model = getattr(models, name)(x, len(fixed[0]), sites="sequences", fixed=fixed)
    return model, model.params_of_labels(np.concatenate(z))


@cases("zero", KINDS, "a forbidden move costs infinity")
def test_forbidden_moves(name):
    """New series that go back: losses, posterior and decoding are sums over what is allowed."""

    @hold(4, rng=RNG, chain=st.sampled_from(list(CHAINS)))
    def check(rng, chain):
        fixed = np.array(CHAINS[chain], float)
        model, start = chain_model(name, rng, fixed)
        params = ask(acv.fit, model, start=start).params
        named = model.unpack(params)
        zero = fixed == 0.0
        assert not np.vstack([named.initial, named.transition])[zero].any()
        x = np.asarray(emit(name, rng, np.array([0, 1, 1, 0, 0, 1])), float)
        dense = log_densities(name, named.emission, x)
        initial, transition = named.initial, np.where(zero[1:], 0.0, named.transition)
        log_p, share, best = by_enumeration(np.where(zero[0], 0, initial), transition, dense)
        assert np.isclose(model.sequence_losses(params, [x])[0], -log_p, rtol=1e-8)
        assert np.allclose(model.posterior(params, [x]), share, atol=1e-8)
        assert np.array_equal(model.decode(params, [x]).states, best)


@cases("zero", KINDS, "is no parameter")
def test_what_is_fixed_is_no_parameter(name):
    """A row with m free entries has m - 1, wherever they are counted.

    It is fitted from the model's own start; what `fixed` asks for is what `pack` takes.
    """
    for fixed in map(np.array, CHAINS.values()):
        model, _ = chain_model(name, np.random.default_rng(3), fixed)
        k = len(fixed[0])
        free = getattr(models, name)(model.sequences, k, sites="sequences")
        emission = free.n_params - (k + 1) * (k - 1)
        in_chain = np.maximum(np.isnan(fixed).sum(axis=1) - 1, 0).sum()
        assert len(model.initial_params()) == in_chain + emission
        params = ask(acv.fit, model).params
        named = model.unpack(params)
        rows = np.where(fixed == 0.0, 0.0, np.vstack([named.initial, named.transition]))
        exact = named._replace(initial=rows[0], transition=rows[1:])
        assert np.allclose(ask(model.pack, exact), params, atol=1e-8)


@cases("zero", ["choose"], "is not counted")
def test_the_simplest_model_has_the_fewest_free_parameters(name):
    fixed = CHAINS["left to right"]

    @hold(2, rng=RNG, turned=st.booleans())
    def check(rng, turned):
        x = [emit("GaussianHMM", rng, z) for z in walks(rng, np.array(fixed))]
        models_ = {"all": {}, "ordered": {"fixed": fixed}}
        build = {k: models.GaussianHMM(x, 3, sites="sequences", **v) for k, v in models_.items()}
        candidates = {k: build[k] for k in (reversed(build) if turned else build)}
        choice = ask(acv.choose, candidates, acv.folds.k_fold(len(x), 3), method="exact")
        assert choice.table.n_params["ordered"] == 2 + 6


def left_right(rng, n=12):
    fixed = np.array(CHAINS["left to right"], float)
    x = [0.1 * rng.normal(size=(16, 2)) + z[:, None] for z in walks(rng, fixed, n, 16)]
    theirs = hmm.GaussianHMM(3, init_params="", params="tmc", n_iter=200, tol=1e-8)
    theirs.startprob_ = np.array([1.0, 0, 0])
    theirs.transmat_ = np.array([[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 1.0]])
    theirs.means_, theirs.covars_ = np.arange(3.0)[:, None] * np.ones((3, 2)), np.full((3, 2), 0.1)
    lengths = [len(own) for own in x]
    return theirs.fit(np.concatenate(x), lengths), np.concatenate(x), lengths


@cases("zero", ["from_hmmlearn"], "survives")
def test_zeros_of_hmmlearn_survive(name):
    """Series that do not keep to the order have hmmlearn's own score and path."""
    paths = st.lists(st.integers(0, 2), min_size=8, max_size=30)

    @hold(6, rng=RNG, path=paths)
    def check(rng, path):
        theirs, X, lengths = left_right(rng)
        model, params = ask(acv.from_hmmlearn, theirs, X, lengths)
        new = 0.1 * rng.normal(size=(len(path), 2)) + np.array(path)[:, None]
        assert np.isclose(model.sequence_losses(params, [new])[0], -theirs.score(new), rtol=1e-8)
        assert np.array_equal(model.decode(params, [new]).states, theirs.predict(new))


@cases("zero", ["from_hmmlearn"], "that no data decide")
def test_a_state_that_is_never_left_is_refused_or_said(name):
    """A row of zeros, as hmmlearn leaves behind, is no distribution: hmmlearn will not score it."""
    rng = np.random.default_rng(0)
    x = np.r_[np.where(np.arange(60) // 9 % 2, 3.0, 0.0) + 0.5 * rng.normal(size=60), 9.0][:, None]
    theirs = hmm.GaussianHMM(2, random_state=0).fit(x)
    theirs.transmat_[1] = 0.0
    assert refused(acv.from_hmmlearn, theirs, x, words="transmat_")


@cases("zero", ["exact"], "a loss of what no path explains")
def test_an_impossible_sequence_has_infinite_loss(name):
    """The others have theirs, and the fold is named."""
    rng = np.random.default_rng(0)
    fixed = np.array(CHAINS["left to right"], float)
    z = [np.sort(rng.integers(0, 3, 12)) for _ in range(9)]
    z = [np.r_[0, np.minimum(np.cumsum(np.clip(np.diff(own), 0, 1)), 2)] for own in z]
    codes = [*z, np.array([2, 2, 1, 1, 0, 0])]
    sure = np.where(np.eye(3) > 0, NAN, 0.0)
    model = ask(models.HMM, codes, 3, Categorical(3, 1.1, fixed=sure), fixed=fixed)
    with pytest.warns(models.ImpossibleSequence, match=r"sequences \[9\]"):
        fit = acv.fit(model, **TIGHT)
    result = acv.exact(fit, acv.folds.leave_one_out(len(codes)))
    assert np.isinf(result.pointwise[-1])
    assert np.isfinite(result.pointwise[:-1]).all()
