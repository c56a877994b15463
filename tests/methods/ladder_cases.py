"""The problems on which every method is tested, and refits tight enough for differences of refits.

`RIDGE` is quadratic and linear in the weights, `LOGISTIC` linear in the weights only, the traffic model
neither; `INSTRUMENTS` is an estimating equation in closed form, `CURVED` one that is not linear.
"""

import numpy as np
from oracles.toy_models import CurvedInstruments, Instruments, Logistic, Ridge, simulate_traffic

import acvlib as acv
from acvlib import derivatives as curvature
from acvlib.models import PoissonTraffic
from acvlib.solvers.newton import refine
from acvlib.weighting import drop_latents

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.standard_normal(60)
U = X + RNG.standard_normal((60, 3))
RIDGE, LOGISTIC = Ridge(X, Y), Logistic(X, np.sign(Y))
INSTRUMENTS, CURVED = Instruments(U, X, Y), CurvedInstruments(U, X, np.exp(0.2 * Y))
SMALL = {"ridge": RIDGE, "logistic": LOGISTIC, "instruments": INSTRUMENTS, "curved": CURVED}
FOLDS = [np.array([3]), np.arange(10), np.array([59, 20, 21, 40])]
TIGHT = 1e-9
METHODS = [
    acv.no_adjustment,
    acv.infinitesimal_jackknife,
    acv.frozen_newton,
    acv.newton_step,
    acv.exact,
]
SERIES = simulate_traffic(np.random.default_rng(1), 800)
TRAFFIC, DROPPING = PoissonTraffic(*SERIES), PoissonTraffic(*SERIES, drop_latents)
CASES = ["ridge", "logistic", "instruments", "curved", "traffic A", "traffic B"]


class AtWeights:
    """A model whose base weights are `base`: what its weight 1 means."""

    def __init__(self, model, base):
        self.model, self.base, self.n_sites = model, base, model.n_sites
        if hasattr(model, "residual"):
            self.residual = lambda params, weights: model.residual(params, weights * base)

    def objective(self, params, weights):
        return self.model.objective(params, weights * self.base)

    @property
    def fast(self):
        return getattr(self.model, "fast", None) and self

    def value_and_gradient(self, params, weights):
        return curvature.value_and_gradient(self.model, params, weights * self.base)

    def hessian_and_cross(self, params, weights):
        return curvature.hessian_and_cross(self.model, params, weights * self.base)


def tight_refit(model, params, weights):
    """argmin F(., weights) near params, to a decrement of 1e-11, tested in test_refine.py."""
    state = refine(AtWeights(model, weights), params[None], [np.array([], int)], 1e-11)
    assert state.converged.all()
    return state.params[0]


def left_out(model, fold, share=1.0):
    """Weights with a share of a fold's weight taken away."""
    weights = np.ones(model.n_sites)
    weights[fold] -= share
    return weights


def errors_at_shares(model, fit, fold, step, shares):
    """SE distance of fit + share * step from the refit with that share of the fold's weight taken away."""
    refits = [tight_refit(model, fit.params, left_out(model, fold, share)) for share in shares]
    guesses = [fit.params + share * step for share in shares]
    return np.array(
        [fit.standard_errors_between(a, b) for a, b in zip(refits, guesses, strict=True)]
    )


def case(name, fits, traffic_fit):
    """(model, fit, a fold) of a name in CASES."""
    if name.startswith("traffic"):
        model = TRAFFIC if name.endswith("A") else DROPPING
        return model, traffic_fit, np.flatnonzero(model.observed)[300:340]
    return SMALL[name], fits[name], FOLDS[1]
