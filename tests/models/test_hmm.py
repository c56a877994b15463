"""The HMM family: derivatives against autograd and enumeration, folds against refits, EM."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal
from oracles.enumerate import weighted_log_sum
from oracles.toy_models import Laplace
from oracles.wrappers import ByAutograd, raises

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.models import GLMHMM, HMM, AutoRegressiveHMM, GaussianHMM, MixtureHMM
from acvlib.models.hmm import curvature, em, emissions
from acvlib.models.hmm import derivatives as hmm_derivatives
from acvlib.models.hmm.curvature import Curvature
from acvlib.models.hmm.derivatives import Products
from acvlib.models.hmm.emissions import AutoRegression, Gaussian, Mixture, NeuralAutoRegression
from acvlib.models.hmm.families import NegativeBinomialHMM
from acvlib.models.hmm.posterior import hidden_states, states_of_sequences

ROWS = np.arange(2)
LENGTHS = (9, 14, 7)
FREE = np.nan


def regimes(rng, lengths=LENGTHS):
    """States (T,) of each sequence."""
    return [(np.cumsum(rng.random(length) < 0.15)) % 2 for length in lengths]


def continuous(rng, lengths=LENGTHS, gap=0.0):
    """Two states, each of two parts if there is a gap between these."""
    found = []
    for z in regimes(rng, lengths):
        part = gap * rng.integers(0, 2, len(z))
        found.append(3.0 * z[:, None] + part[:, None] * [1.0, -1.0] + rng.normal(size=(len(z), 2)))
    return found


def counts(rng, lengths=LENGTHS, gap=0):
    return [
        rng.poisson(2.0 + 6.0 * z[:, None] + gap * rng.integers(0, 2, (len(z), 1)), (len(z), 2))
        for z in regimes(rng, lengths)
    ]


def with_holes(x):
    """One channel of a frame, and all of another, missing."""
    x = [np.array(one, float) for one in x]
    x[0][2, 0] = np.nan
    x[1][3] = np.nan
    return x


def codes(rng, lengths=LENGTHS):
    found = [(z + rng.integers(0, 3, len(z))) % 4 * 1.0 for z in regimes(rng, lengths)]
    found[0][3] = np.nan
    return found


def choices(rng, family, lengths=LENGTHS):
    y, inputs = [], []
    for z in regimes(rng, lengths):
        u = rng.normal(size=(len(z), 2))
        eta = np.where(z == 1, 3.0 * u[:, 0] + 1.0, -3.0 * u[:, 1] - 1.0)
        draw = rng.random(len(z)) < 1 / (1 + np.exp(-eta)) if family == "bernoulli" else None
        y.append(rng.poisson(np.exp(eta / 3)) * 1.0 if draw is None else draw * 1.0)
        inputs.append(u)
    y[1][2] = np.nan
    return y, inputs


def bursts(rng, lengths=LENGTHS, gap=0):
    """Counts that vary more than Poisson's do."""
    return [rng.poisson(x * rng.gamma(3.0, 1.0 / 3.0, x.shape)) for x in counts(rng, lengths, gap)]


def several_kinds(rng, lengths=LENGTHS):
    """Two real channels, a count before and one after them, and a code; whole kinds are missing."""
    parts = continuous(rng, lengths), with_holes(counts(rng, lengths)), codes(rng, lengths)
    x = [np.column_stack([n[:, 0], z, n[:, 1], c]) for z, n, c in zip(*parts, strict=True)]
    x[0][2, 1:3] = np.nan
    x[1][1, [1, 2, 4]] = np.nan
    return x


KINDS = [((1, 2), Gaussian(covariance="full")), ((0, 3), emissions.Poisson())]
KINDS += [(4, emissions.Categorical(fixed=[[FREE, FREE, FREE, 0.0], [FREE] * 4]))]


def sequences(rng, lengths=(7, 5, 8), channels=2, missing=True):
    found = [np.cumsum(rng.normal(size=(length, channels)), axis=0) for length in lengths]
    if missing:
        found[0][1] = np.nan
    return found


def holed(draw, gap=0):
    return lambda rng, lengths: with_holes(draw(rng, lengths, gap))


def built(kind, draw, *given, **fixed):
    def build(rng, lengths=LENGTHS, **settings):
        return kind(draw(rng, lengths), 2, *given, **fixed | settings)

    return build


def glm(family):
    def build(rng, lengths=LENGTHS, **settings):
        return GLMHMM(*choices(rng, family, lengths), 2, family, weight_sd=2.0, **settings)

    return build


def with_known_states(rng, lengths=LENGTHS, **settings):
    """Of every third frame, one of them missing; none of the last sequence."""
    x = with_holes(continuous(rng, lengths))
    known = [np.where(np.arange(len(own)) % 3 == 0, own[:, 0] > 1.5, np.nan) for own in x[:-1]]
    return GaussianHMM(x, 2, 100.0, known_states=[*known, None], **settings)


BUILDS = {
    "known states": with_known_states,
    "diag": built(GaussianHMM, holed(continuous), 100.0),
    "spherical": built(GaussianHMM, holed(continuous), 100.0, covariance="spherical"),
    "full": built(GaussianHMM, continuous, 100.0, covariance="full"),
    "tied": built(GaussianHMM, continuous, 100.0, covariance="tied"),
    "mixture": built(MixtureHMM, partial(continuous, gap=4.0), 2),
    "mixture of full": built(MixtureHMM, partial(continuous, gap=4.0), 2, "full"),
    "mixture of poisson": built(HMM, holed(counts, 25), Mixture(2, emissions.Poisson())),
    "categorical": built(acv.models.CategoricalHMM, codes),
    "negative binomial": built(NegativeBinomialHMM, holed(bursts)),
    "channels": built(HMM, several_kinds, emissions.Channels(KINDS)),
    "poisson": built(acv.models.PoissonHMM, holed(counts)),
    "bernoulli glm": glm("bernoulli"),
    "poisson glm": glm("poisson"),
    "AR(0)": built(HMM, sequences, AutoRegression(0)),
    "AR(2)": built(HMM, sequences, AutoRegression(2)),
    "AR(1), full": built(HMM, sequences, Gaussian(order=1, covariance="full")),
    "network": built(HMM, sequences, NeuralAutoRegression(1, 2)),
    "user's own": built(HMM, continuous, Laplace()),
}


SITES = ("sequences", "steps")
HELD = ("diag", "AR(0)", "AR(2)", "network")
CASES = [(name, "sequences", False) for name in BUILDS]
BY_STEP = (*HELD, "known states", "full", "mixture", "channels")
CASES += [(name, "steps", False) for name in BY_STEP]
CASES += [(name, sites, True) for name in HELD for sites in SITES]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    """(model, params), matrix-free however small."""
    name, sites, held = request.param
    rng = np.random.default_rng(1)
    model = BUILDS[name](rng, (7, 5, 8), sites=sites, dense_limit=0)
    params = 0.4 * rng.normal(size=model.n_params)
    return model.hold(params) if held else (model, params)


def some_folds(model):
    seen = np.flatnonzero(model.observed)
    return Folds([seen[:1], seen[1:3]])


def dense(model):
    return replace(model, dense_limit=1000).derivatives


def close(found, expected, accuracy):
    assert_allclose(found, expected, atol=accuracy * abs(np.asarray(expected)).max(), rtol=0.0)


def check_derivatives(model, params):
    """All derivatives of a model, of folds, and products, against autograd."""
    rng = np.random.default_rng(2)
    folds = some_folds(model)
    by_autograd = derivatives_of(ByAutograd(model))
    weights = rng.uniform(0.3, 1.0, model.n_sites)
    found = dense(model).value_and_gradient(params, weights)
    expected = by_autograd.value_and_gradient(params, weights)
    assert_allclose(found[0], expected[0], rtol=1e-12)
    close(found[1], expected[1], 1e-10)
    hessian = np.asarray(by_autograd.hessian(params, weights))
    close(np.asarray(dense(model).hessian(params, weights)), hessian, 1e-8)
    close(model.derivatives.cross(params, folds), by_autograd.cross(params, folds), 1e-8)
    hessians = by_autograd.fold_hessians(params, folds).matrices
    values, gradients = by_autograd.fold_gradients(params, folds)
    vectors = rng.normal(size=(2, len(params)))
    expected = np.einsum("nij,nj->ni", hessians, vectors)
    for points in (params, np.tile(params, (2, 1))):  # what folds share, and each on its own
        products = model.derivatives.products(points, folds)
        close(products.multiply(vectors, ROWS), expected, 1e-8)
        close(products.rough.multiply(vectors, ROWS), expected, 10.0 * curvature.ROUGH)
        close(dense(model).fold_hessians(points, folds).matrices, hessians, 1e-8)
        found = model.derivatives.fold_gradients(points, folds)
        close(found[0], values, 1e-10)
        close(found[1], gradients, 1e-10)
    found = model.derivatives.prior_gradients(params[None])[0]
    assert_allclose(found, grad(lambda p: -model.log_prior(p))(params), rtol=1e-10, atol=1e-12)


def first(named):
    """An array, of the last group where there are groups."""
    return named[4].probability if isinstance(named, dict) else named[0]


def test_derivatives_equal_autograd_and_params_are_packed_as_they_were_unpacked(case):
    check_derivatives(*case)
    model, params = case
    assert_allclose(model.pack(model.unpack(params)), params, atol=1e-12)
    assert np.isfinite(grad(lambda p: first(model.unpack(p).emission).sum())(params)).all()
    losses = model.derivatives.heldout(params, some_folds(model))
    for fold, own in zip(some_folds(model), losses, strict=True):
        assert_array_equal(model.heldout_loss(params, fold), own)


LEFT_TO_RIGHT = [[1, 0, 0], [FREE, FREE, 0], [0, FREE, FREE], [0, 0, 1]]
MIXED = [[FREE, FREE, 0.2], [FREE, 0, FREE], [FREE] * 3, [0.5, FREE, FREE]]


def levels(rng):
    return [np.repeat([0.0, 3.0, 9.0], 8)[:, None] + rng.normal(size=(24, 1)) for _ in range(4)]


@pytest.mark.parametrize("sites", ["sequences", "steps"])
@pytest.mark.parametrize("fixed", [LEFT_TO_RIGHT, MIXED])
def test_derivatives_with_fixed_entries_equal_autograd(fixed, sites, rng):
    model = HMM(levels(rng), 3, Gaussian(), sites, fixed=fixed)
    check_derivatives(model, model.initial_params() + 0.3 * rng.normal(size=model.n_params))


@pytest.mark.parametrize("concentration", [[[1.2], [2.0], [3.0]], [[1, 2], [3, 1.5], [2, 4]]])
def test_concentrations_of_rows_and_entries(concentration):
    x = np.random.default_rng(16).normal(size=(12, 1))
    model = GaussianHMM(x, 2, concentration=concentration)
    params = model.initial_params(np.random.default_rng(1))
    check_derivatives(model, params)
    rows = np.vstack([model.unpack(params).initial, model.unpack(params).transition])
    flat = GaussianHMM(x, 2, concentration=1.0)
    pseudo = np.sum((np.broadcast_to(concentration, (3, 2)) - 1.0) * np.log(rows))
    assert model.log_prior(params) - flat.log_prior(params) == pytest.approx(pseudo, rel=1e-12)


def test_preconditioners_of_folds_lack_what_is_left_out(case, monkeypatch):
    model, params = case
    monkeypatch.setattr(hmm_derivatives, "SHARE", 0.0)
    if model.sites != "sequences":
        pytest.skip("folds of time steps share nothing")
    folds = Folds([np.array([0]), np.array([1, 2])])
    vectors = np.random.default_rng(3).normal(size=(2, len(params)))
    weights = [acv.folds.weights(3, fold) for fold in folds]
    separate = Products([Curvature(hidden_states(model, params, w)) for w in weights])
    own = [Curvature(states_of_sequences(model, params, fold)) for fold in folds]
    whole = Curvature(hidden_states(model, params, np.ones(3)))
    shared = Products([whole], own, folds)
    expected = separate.precondition(vectors, ROWS)
    assert_allclose(shared.precondition(vectors, ROWS), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", BUILDS)
def test_objective_equals_enumeration(name, rng):
    model = BUILDS[name](rng, (7, 8), sites="sequences")
    params = 0.3 * rng.normal(size=model.n_params)
    weights = np.array([0.7, 1.0])
    densities = model.log_densities(params)
    assert (densities[~model.frames.observed] == 0.0).all()
    known = np.concatenate([z[model.context :] for z in model.labels])
    densities[(known >= 0) & (known != 0), 0] = densities[known == 0, 1] = -np.inf
    total = 0.0
    for weight, frames in zip(weights, model.pieces(), strict=True):
        steps = np.ones(frames.stop - frames.start)
        own = densities[frames], *model.log_chain(params), steps, "A"
        total += weight * weighted_log_sum(*own)
    expected = -total - model.log_prior(params)
    assert_allclose(model.objective(params, weights), expected, rtol=1e-12)
    found = model.derivatives.value_and_gradient(params, weights)[0]
    assert_allclose(found, expected, rtol=1e-12)


def test_autoregressions_have_the_papers_numbers_of_parameters_and_miss_what_looks_back():
    x = [np.random.default_rng(0).normal(size=(40, 12))]
    emissions = [*map(AutoRegression, range(6)), NeuralAutoRegression(1)]
    models = [HMM(x, 16, emission) for emission in emissions]
    held = [model.hold(np.zeros(model.n_params))[0].n_params for model in models]
    assert held == [192, 2496, 4800, 7104, 9408, 11712, 4992]
    x = sequences(np.random.default_rng(10), (9,), missing=False)
    x[0][4] = np.nan
    model = AutoRegressiveHMM(x, 2, 2, sites="steps")
    assert np.flatnonzero(~model.observed).tolist() == [2, 3, 4]  # sites count from the third frame
    raises("missing", Folds.of, [np.array([3])], model.n_sites, model.observed)


def without(model, fold):
    """The model built anew where the frames of a fold are missing, or without its sequences."""
    known = model.known_states
    if model.sites == "sequences":
        kept = [x for n, x in enumerate(model.sequences) if n not in fold]
        known = known and [z for n, z in enumerate(known) if n not in fold]
    else:
        x = np.concatenate(model.sequences)
        x[fold, : model.n_channels] = np.nan
        kept = np.split(x, model.frames.starts[1:-1])
    return HMM(kept, model.n_states, model.emission, model.sites, known_states=known)


@pytest.mark.parametrize("sites", SITES)
@pytest.mark.parametrize("name", [name for name in BUILDS if name[:3] not in ("AR(", "net")])
def test_em_finds_an_optimum_whose_folds_are_refits_without_them(name, sites):
    """Exact folds are fits of the model built anew; the others are on their way there."""
    model = BUILDS[name](np.random.default_rng(5), (40,) * 12, sites=sites)
    start = em.expectation_maximisation(model, model.initial_params(), 4000, 1e-9)
    assert np.diff(start.objectives).max() <= 1e-9 * abs(start.objectives[-1])
    fit = acv.fit(model, start.params, tolerance=1e-9)
    assert_allclose(fit.objective, start.objectives[-1], rtol=1e-5)
    seen = np.flatnonzero(model.observed)
    folds = Folds([seen[10:12]] if model.sites == "steps" else [seen[1:2]])
    exact = acv.exact(fit, folds, 1e-9)
    refit = acv.fit(without(model, folds[0]), fit.params, tolerance=1e-9)
    close(exact.params, [refit.params], 1e-6)
    none = abs(fit.params - exact.params).max()
    assert abs(acv.newton_step(fit, folds).params - exact.params).max() < 0.2 * none
    assert abs(acv.frozen_newton(fit, folds, steps=30).params - exact.params).max() < 0.2 * none
    assert abs(acv.infinitesimal_jackknife(fit, folds).params - exact.params).max() < 2 * none
