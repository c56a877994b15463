"""Law 11: a default prior pulls by less than a tenth of a standard error, or the fit says which.

The pull: sqrt(g' (H - P)^-1 g), g and P the derivatives of -log prior at the optimum.
"""

import inspect
import warnings
from functools import partial

import numpy as np
import pytest
from autograd import grad, jacobian
from hypothesis import strategies as st

import acvlib as acv
from acvlib import models
from acvlib.fit import StrongPrior
from acvlib.models.hmm import families

from .law import RNG, ask, cases, hold

PULL = 0.1  # standard errors


def states(rng, n=600, stay=0.95):
    return np.cumsum(rng.random(n) > stay) % 2


def at_rest(rng):
    z = rng.random(720) < np.where(np.arange(720) // 40 % 6 == 5, 0.95, 0.0)
    return np.where(z, 1 + 0.3 * rng.normal(size=720), 0.001 + 2e-4 * rng.normal(size=720))


def far(rng):
    return np.where(states(rng), 1e5, -1e5) + rng.normal(size=600)


def pulled(rng, unit, twin=None):
    u = rng.normal(size=600)
    y = rng.random(600) < 1 / (1 + np.exp(-np.where(states(rng), 3 * u, 1 - u)))
    inputs = u if twin is None else np.column_stack([u, u + twin * rng.normal(size=600)])
    return models.GLMHMM(y * 1, unit * inputs, 2)


def rates(rng, unit):
    return models.PoissonHMM(rng.poisson(unit * np.where(states(rng), 3.0, 1.0)), 2)


def bursts(rng, unit):
    mean = unit * np.where(states(rng), 3.0, 1.0)
    return families.NegativeBinomialHMM(rng.poisson(mean * rng.gamma(2.0, 0.5, 600)), 2)


def level(rng, unit):
    z, x = states(rng), np.zeros(600)
    for t in range(1, 600):
        x[t] = 0.3 * x[t - 1] + 6 * z[t] + rng.normal()
    return models.AutoRegressiveHMM([unit * (x + 65)], 2)


def traffic(rng, unit):
    counts = rng.poisson(unit * (2 + 4 * states(rng)))
    return models.PoissonTraffic(counts, np.arange(600) // 40 % 7)


def symbols(rng, unit):
    rare = rng.random(600) < 0.01
    x = np.where(rare, 3, (states(rng) + (rng.random(600) < 0.2)) % 3)
    return models.CategoricalHMM(x, 2)


def parts(rng, unit):
    x = 9 * states(rng) + rng.normal(size=600) + 3 * (rng.random(600) < 0.1)
    return models.MixtureHMM(unit * x, 2)


def network(rng, unit):
    x = np.zeros(200)
    for t in range(1, 200):
        x[t] = 2 * np.sin(2 * x[t - 1]) + 0.3 * rng.normal()
    return models.NeuralHMM([unit * x], 1)


def unpenalised_levels(make):
    return lambda rng, unit: models.GaussianHMM(unit * make(rng), 2)


MODELS = {
    "GaussianHMM: mostly at rest": unpenalised_levels(at_rest),
    "GaussianHMM: quiet levels far apart": unpenalised_levels(far),
    "GaussianHMM": unpenalised_levels(lambda rng: 3 * states(rng) + rng.normal(size=600)),
    "GLMHMM": pulled,
    "GLMHMM: near twins": partial(pulled, twin=1e-3),
    "PoissonHMM": rates,
    "NegativeBinomialHMM": bursts,
    "AutoRegressiveHMM": level,
    "PoissonTraffic": traffic,
    "CategoricalHMM": symbols,
    "MixtureHMM": parts,
    "NeuralHMM": network,
}


@cases("priors", MODELS)
def test_default_priors_are_weak_or_seen(name):
    """Of emissions; Dirichlet priors of the chain are a count of .1 a move."""
    counts = name in ("PoissonHMM", "NegativeBinomialHMM", "PoissonTraffic")

    @hold(3, rng=RNG, exponent=st.integers(0, 2 if counts else 3))
    def check(rng, exponent):
        model = MODELS[name](rng, 10.0**exponent)
        with warnings.catch_warnings(record=True, action="always") as said:
            fit = ask(acv.fit, model)
        minus = getattr(model, "log_prior", None) or model.prior.negative_log_density
        g, P = grad(minus)(fit.params), jacobian(grad(minus))(fit.params)
        g[: getattr(model, "n_chain", 0)] = 0.0
        P[: getattr(model, "n_chain", 0)] = 0.0
        pull = np.sqrt(g @ np.linalg.solve(np.asarray(fit.hessian) - P, g))
        assert pull < PULL or any("prior" in str(warning.message) for warning in said)


def test_priors_that_outweigh_small_weights_are_seen_and_have_a_name_where_the_model_is_made():
    """As of weights that sum to 1: what they widen is the standard error, not the limit."""
    rng = np.random.default_rng(0)
    x = 3 * states(rng) + rng.normal(size=600)
    for weight in (1e-3, 1e-6):
        with pytest.warns(StrongPrior, match="variance_prior"):
            acv.fit(models.GaussianHMM(x, 2, sample_weight=weight))
    for name, make in MODELS.items():
        label = name.split(":")[0]
        build = getattr(models, label, None) or getattr(families, label)
        emission = getattr(make(np.random.default_rng(0), 1.0), "emission", None)
        named = emission.without_defaults() if emission else {}
        assert named.keys() <= inspect.signature(build).parameters.keys()
