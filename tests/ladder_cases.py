"""The problems on which every method is tested, and refits tight enough for differences of refits.

`RIDGE` is quadratic and linear in the weights, `LOGISTIC` linear in the weights only, the traffic
model neither; `INSTRUMENTS` is an estimating equation in closed form, `CURVED` one that is not
linear.
"""

from dataclasses import replace

import numpy as np
import pytest
from oracles.toy_models import CurvedInstruments, Instruments, Logistic, Ridge, simulate_traffic

import acvlib as acv
from acvlib.bootstrap import _Resampled
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.methods import ladder
from acvlib.models import PoissonTraffic
from acvlib.solvers.newton import newton
from acvlib.weighting import drop_latents

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.standard_normal(60)
U = X + RNG.standard_normal((60, 3))
RIDGE, LOGISTIC = Ridge(X, Y), Logistic(X, np.sign(Y))
INSTRUMENTS, CURVED = Instruments(U, X, Y), CurvedInstruments(U, X, np.exp(0.2 * Y))
SMALL = {"ridge": RIDGE, "logistic": LOGISTIC, "instruments": INSTRUMENTS, "curved": CURVED}
FOLDS = Folds([np.array([3]), np.arange(10), np.array([59, 20, 21, 40])])
TIGHT = 1e-9
METHODS = list(ladder.METHODS.values())
SERIES = simulate_traffic(np.random.default_rng(1), 800)
TRAFFIC, DROPPING = PoissonTraffic(*SERIES), PoissonTraffic(*SERIES, drop_latents)
CASES = ["ridge", "logistic", "instruments", "curved", "traffic A", "traffic B"]


def tight_refit(model, params, weights):
    """argmin F(., weights) near params, to a decrement of 1e-11, tested in test_newton.py."""
    at_weights = _Resampled(derivatives_of(model), weights[None])
    found = newton(at_weights, params, Folds([[0]]), 1e-11)
    assert found.converged.all()
    return found.params[0]


def left_out(model, fold, share=1.0):
    """Weights with a share of a fold's weight taken away."""
    weights = np.ones(model.n_sites)
    weights[fold] -= share
    return weights


def errors_at_shares(model, fit, fold, step, shares):
    """SE distance of fit + share * step from the refit without that share of the fold's weight."""
    refits = [tight_refit(model, fit.params, left_out(model, fold, share)) for share in shares]
    guesses = [fit.params + share * step for share in shares]
    return fit.standard_errors_between(np.array(refits), np.array(guesses))


def case(name, fits, traffic_fit):
    """(model, fit, a fold) of a name in CASES."""
    if name.startswith("traffic"):
        model = TRAFFIC if name.endswith("A") else DROPPING
        return model, replace(traffic_fit, model=model), np.flatnonzero(model.observed)[300:340]
    return SMALL[name], fits[name], FOLDS[1]


@pytest.fixture(scope="session")
def fits():
    """Full fits of the small models, tight enough for differences of refits."""
    return {name: acv.fit(model, tolerance=TIGHT) for name, model in SMALL.items()}


@pytest.fixture(scope="session")
def traffic_fit():
    return acv.fit(TRAFFIC, tolerance=TIGHT)


@pytest.fixture(scope="session")
def traffic_folds():
    rng = np.random.default_rng(2)
    scattered = acv.folds.iid(800, 10, 20, rng, TRAFFIC.observed)
    blocks = acv.folds.contiguous(800, 5, 20, rng, TRAFFIC.observed)
    return acv.Folds([*scattered, *blocks])


@pytest.fixture(scope="session")
def traffic_exact(traffic_fit, traffic_folds):
    return acv.exact(traffic_fit, traffic_folds)
