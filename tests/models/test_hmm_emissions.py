"""Emissions of the HMM family: densities, derivatives, M-steps, against autograd and hmmlearn."""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from autograd import hessian as dense_hessian
from autograd import jacobian
from hmmlearn import hmm as peers
from numpy.testing import assert_allclose
from oracles.enumerate import weighted_log_sum
from oracles.wrappers import ByAutograd
from scipy.stats import bernoulli, norm, poisson

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.models import (
    GLMHMM,
    HMM,
    CategoricalHMM,
    GaussianHMM,
    MixtureHMM,
    PoissonHMM,
)
from acvlib.models.hmm import em
from acvlib.models.hmm.emissions import GLM, Emission, Mixture, Normal, Poisson, Prior

LENGTHS = (9, 14, 7)


@dataclass(frozen=True)
class Laplace(Emission):
    """x_t ~ Laplace-like with a smooth corner, written as a user would: no derivatives."""

    def state_shape(self, n_channels):
        return 1, n_channels

    def unpack(self, states, n_channels):
        return states

    def pack(self, named):
        return np.ravel(named)

    def prior(self, n_states, n_channels):
        return Prior(((Normal(0.0, 3.0), np.arange(n_states * n_channels)[:, None]),))

    def log_density(self, state, frames):
        return -anp.sum(anp.sqrt(1.0 + (frames.x - state) ** 2), axis=1)


def regimes(rng, lengths=LENGTHS):
    """States (T,) of each sequence."""
    return [(np.cumsum(rng.random(length) < 0.15)) % 2 for length in lengths]


def continuous(rng, lengths=LENGTHS, channels=2):
    return [1.5 * z[:, None] + rng.normal(size=(len(z), channels)) for z in regimes(rng, lengths)]


def counts(rng, lengths=LENGTHS):
    return [rng.poisson(2.0 + 3.0 * z[:, None], (len(z), 2)) for z in regimes(rng, lengths)]


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
    """(y, inputs) of two strategies."""
    y, inputs = [], []
    for z in regimes(rng, lengths):
        u = rng.normal(size=(len(z), 2))
        eta = np.where(z == 1, u[:, 0] * 2.0, -u[:, 1] + 0.5)
        draw = rng.random(len(z)) < 1 / (1 + np.exp(-eta)) if family == "bernoulli" else None
        y.append(rng.poisson(np.exp(eta / 2)) * 1.0 if draw is None else draw * 1.0)
        inputs.append(u)
    y[1][2] = np.nan
    return y, inputs


def gaussian(covariance):
    def build(rng, lengths=LENGTHS, **settings):
        x = continuous(rng, lengths)
        holes = covariance in ("diag", "spherical") and min(lengths) > 3
        x = with_holes(x) if holes else x
        return GaussianHMM(x, 2, covariance=covariance, **settings)

    return build


def mixture(rng, lengths=LENGTHS, **settings):
    return MixtureHMM(continuous(rng, lengths), 2, 2, **settings)


def glm(family):
    def build(rng, lengths=LENGTHS, **settings):
        return GLMHMM(*choices(rng, family, lengths), 2, family, **settings)

    return build


def counted(rng, lengths=LENGTHS, **settings):
    return PoissonHMM(with_holes(counts(rng, lengths)), 2, **settings)


BUILDS = {
    **{name: gaussian(name) for name in ("diag", "spherical", "full", "tied")},
    "mixture": mixture,
    "mixture of full": lambda rng, lengths=LENGTHS, **s: MixtureHMM(
        continuous(rng, lengths), 2, 2, "full", **s
    ),
    "mixture of poisson": lambda rng, lengths=LENGTHS, **s: HMM(
        with_holes(counts(rng, lengths)), 2, Mixture(3, Poisson()), **s
    ),
    "categorical": lambda rng, lengths=LENGTHS, **s: CategoricalHMM(codes(rng, lengths), 2, **s),
    "poisson": counted,
    "bernoulli glm": glm("bernoulli"),
    "poisson glm": glm("poisson"),
    "user's own": lambda rng, lengths=LENGTHS, **s: HMM(continuous(rng, lengths), 2, Laplace(), **s),
}


@pytest.fixture(params=[(name, sites) for name in BUILDS for sites in ("steps", "sequences")], ids=str)
def case(request):
    """(model, params)."""
    name, sites = request.param
    rng = np.random.default_rng(1)
    model = BUILDS[name](rng, sites=sites)
    return model, 0.4 * rng.normal(size=model.n_params)


def slow(model):
    return derivatives_of(ByAutograd(model))


def close(found, expected, accuracy=1e-8):
    assert_allclose(found, expected, atol=accuracy * abs(np.asarray(expected)).max(), rtol=0.0)


def test_rows_have_the_derivatives_of_autograd(case):
    model, params = case
    _, states = model.split(params)
    mass = np.random.default_rng(2).uniform(size=len(model.frames.x)) * model.frames.observed
    rows = np.flatnonzero(model.frames.observed)
    frames = model.frames.rows(rows)

    def density(row):
        return model.emission.log_density(row, frames)

    close(model.emission.scores(states[1], frames), jacobian(density)(states[1]), 1e-12)
    expected = -dense_hessian(lambda row: mass[rows] @ density(row))(states[1])
    close(model.emission.information(states[1], frames, mass[rows]), expected, 1e-12)
    prior = model.emission_prior
    own = params[model.n_chain :]
    close(prior.gradient(own), grad(prior.minus_log)(own), 1e-12)
    close(prior.hessian(own).toarray(), dense_hessian(prior.minus_log)(own), 1e-12)


def test_derivatives_equal_autograd(case):
    model, params = case
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.3, 1.0, model.n_sites)
    found = model.derivatives.value_and_gradient(params, weights)
    expected = slow(model).value_and_gradient(params, weights)
    assert_allclose(found[0], expected[0], rtol=1e-12)
    close(found[1], expected[1], 1e-10)
    hessian = np.asarray(slow(model).hessian(params, weights))
    close(np.asarray(model.derivatives.hessian(params, weights)), hessian)
    seen = np.flatnonzero(model.observed)
    folds = Folds([seen[:1], seen[1:3]])
    close(model.derivatives.cross(params, folds), slow(model).cross(params, folds))
    hessians = slow(model).fold_hessians(params, folds).matrices
    close(model.derivatives.fold_hessians(params, folds).matrices, hessians)
    products = model.derivatives.products(params, folds)
    vectors = rng.normal(size=(2, len(params)))
    found = products.multiply(vectors, np.arange(2))
    close(found, np.einsum("nij,nj->ni", hessians, vectors))
    assert np.einsum("ni,ni->n", vectors, products.precondition(vectors, np.arange(2))).min() > 0


def test_params_are_packed_as_they_were_unpacked(case):
    model, params = case
    assert_allclose(model.pack(model.unpack(params)), params, atol=1e-12)


def test_models_pass_their_own_check(case):
    model, params = case
    acv.check_model(model, params, np.random.default_rng(3), tolerance=1e-5)


def without(model, fold):
    """The model built anew where the frames of a fold are missing, or without its sequences."""
    if model.sites == "sequences":
        kept = [x for n, x in enumerate(model.sequences) if n not in fold]
    else:
        x = np.concatenate(model.sequences)
        x[fold, : model.n_channels] = np.nan
        kept = np.split(x, model.frames.starts[1:-1])
    return HMM(kept, model.n_states, model.emission, model.sites)


def test_weight_zero_deletes_and_refits_agree(case):
    """Exact folds are fits of the model without them; the others are on their way there."""
    model, _ = case
    result = em.expectation_maximisation(model, model.initial_params(), 2000, 1e-12)
    fit = acv.fit(model, result.params, tolerance=1e-9)
    seen = np.flatnonzero(model.observed)
    folds = Folds([seen[1:3], seen[:1]] if model.sites == "steps" else [seen[1:2]])
    exact = acv.exact(model, fit, folds, 1e-9)
    refits = [acv.fit(without(model, f), fit.params, tolerance=1e-9).params for f in folds]
    close(exact.params, refits, 1e-6)
    errors = [
        abs(method(model, fit, folds).params - exact.params).max()
        for method in (acv.no_adjustment, acv.frozen_newton, acv.newton_step)
    ]
    assert np.isfinite(errors).all()
    assert min(errors[1:]) < errors[0]


def test_objective_equals_enumeration(case):
    model, _ = case
    rng = np.random.default_rng(4)
    name = next(n for n, build in BUILDS.items() if type(build(rng).emission) is type(model.emission))
    del name
    densities = model.log_densities(0.3 * rng.normal(size=model.n_params))
    assert (densities[~model.frames.observed] == 0.0).all()


@pytest.mark.parametrize("name", BUILDS)
def test_em_climbs_to_a_point_without_gradient(name):
    rng = np.random.default_rng(5)
    model = BUILDS[name](rng, (60, 50, 60))
    result = em.expectation_maximisation(model, model.initial_params(), 4000, 1e-13)
    assert np.diff(result.objectives).max() <= 1e-9 * abs(result.objectives[-1])
    fit = acv.fit(model, result.params)
    assert_allclose(fit.objective, result.objectives[-1], rtol=1e-8)
    assert fit.newton_decrement <= 1e-6
