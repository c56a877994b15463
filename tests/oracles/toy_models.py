"""Small models with known answers, and a series of traffic counts."""

from dataclasses import dataclass

import autograd.numpy as anp
import numpy as np

from acvlib.models import TrafficPrior
from acvlib.models.hmm.emissions import Emission, normal


def simulate_traffic(rng, n_sites, days=40, missing=0.03):
    """(counts, day) of a series with overlapping events, `days` sites a day; -1 where missing."""
    day = (np.arange(n_sites) // days) % 7
    event, state = np.zeros(n_sites, int), 0
    for t in range(n_sites):
        state = rng.random() > 0.95 if state == 0 else rng.random() < 0.85
        event[t] = state
    counts = rng.poisson(8.0 + day) + event * rng.negative_binomial(4.0, 0.4, n_sites)
    return np.where(rng.random(n_sites) < missing, -1, counts), day


FIRM = TrafficPrior((2.0, 0.1), 1.5, (2.0, 0.5), (2.0, 0.5), (20.0, 2.0), (4.0, 2.0))
TRAFFIC_PARAMS = np.array([2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.4, 1.2, -0.3, 2.8, 1.6])


class OfFunctions:
    """A model of F(params, weights), of held-out losses of (params, fold), and of a start."""

    def __init__(self, n_sites, objective, heldout_loss=None, start=(0.0,)):
        self.n_sites, self.objective, self.heldout_loss = n_sites, objective, heldout_loss
        self.start = np.array(start)

    def initial_params(self, rng):
        return self.start


class Ridge:
    """F = sum_i w_i (y_i - x_i theta)^2 / 2 + |theta|^2 / 2: linear in w, solved in closed form."""

    def __init__(self, x, y):
        self.x, self.y, self.n_sites = x, y, len(y)

    def objective(self, params, weights):
        return anp.sum(weights * (self.y - self.x @ params) ** 2) / 2 + anp.sum(params**2) / 2

    def heldout_loss(self, params, fold):
        return (self.y[fold] - self.x[fold] @ params) ** 2 / 2

    def initial_params(self, rng=None):
        return np.zeros(self.x.shape[1])

    def solution(self, weights):
        gram = (self.x.T * weights) @ self.x + np.eye(self.x.shape[1])
        return np.linalg.solve(gram, self.x.T @ (weights * self.y))


class Logistic(Ridge):
    """F = sum_i w_i log(1 + exp(-y_i x_i theta)) + penalty |theta|^2 / 2, y = -1 or 1."""

    def __init__(self, x, y, penalty=1.0):
        super().__init__(x, y)
        self.penalty = penalty

    def objective(self, params, weights):
        margin = self.y * (self.x @ params)
        losses = anp.logaddexp(0.0, -margin)
        return anp.sum(weights * losses) + self.penalty * anp.sum(params**2) / 2

    def heldout_loss(self, params, fold):
        return np.logaddexp(0.0, -self.y[fold] * (self.x[fold] @ params))

    solution = None


class Instruments:
    """r = sum_i w_i u_i (y_i - x_i theta) = 0: linear, its Jacobian not symmetric."""

    def __init__(self, u, x, y):
        self.u, self.x, self.y, self.n_sites = u, x, y, len(y)

    def residual(self, params, weights):
        return anp.dot(self.u.T, weights * (self.y - self.mean(params)))

    def mean(self, params):
        return self.x @ params

    def heldout_loss(self, params, fold):
        return (self.y - self.mean(params))[fold] ** 2 / 2

    def initial_params(self, rng=None):
        return np.zeros(self.x.shape[1])

    def solution(self, weights):
        return np.linalg.solve((self.u.T * weights) @ self.x, self.u.T @ (weights * self.y))


class CurvedInstruments(Instruments):
    """The same with mean exp(x_i theta / 4): not linear."""

    def mean(self, params):
        return anp.exp(self.x @ params / 4)

    solution = None


class Staged(Instruments):
    """The first parameter comes from data outside, with exp(theta_0) = 0.005: no weight is read."""

    def residual(self, params, weights):
        outside = anp.exp(params[:1]) - 0.005
        return anp.concatenate([outside, super().residual(params, weights)[1:]])


class Saddle(Ridge):
    """F = sum_i w_i (theta_0^2 - theta_1^2) / (2 n): its Hessian at w = 1 is diag(1, -1)."""

    def objective(self, params, weights):
        return anp.sum(weights) / self.n_sites * (params[0] ** 2 - params[1] ** 2) / 2


SEEN = np.array([0.3, -1.0, 0.5, 2.0, 0.1])
# A mean, and a parameter that only site 0 keeps between two wells, at -1 and 1.
WELLS = OfFunctions(
    5,
    lambda p, w: anp.sum(w * (SEEN - p[0]) ** 2) / 2 + (p[1] ** 2 - 1) ** 2 + 3 * w[0] * p[1] ** 2,
    lambda p, fold: (SEEN[fold] - p[0]) ** 2 / 2,
    [0.0, 0.0],
)


class Cox:
    """The partial likelihood of survival times without ties, all of them observed, and a ridge.

    risk: which weights the sites of a risk set have: "right", those of the later sites, as the
    term has its own site's; "all", which is 0 log 0 without the last site; "none", a mistake.
    """

    def __init__(self, x, times, risk="right"):
        order = np.argsort(times)
        self.x = x[order]
        self.times = times[order]
        self.n_sites = len(times)
        self.risk = risk

    def objective(self, params, weights):
        eta = self.x @ params
        hazards = anp.exp(eta)
        weighted = hazards if self.risk == "none" else weights * hazards
        at_risk = anp.cumsum(weighted[::-1])[::-1]
        if self.risk == "right":
            at_risk = at_risk - weighted + hazards
        return -anp.sum(weights * (eta - anp.log(at_risk))) + anp.sum(params**2) / 2

    def heldout_loss(self, params, fold):
        return -self.x[fold] @ params

    def initial_params(self, rng=None):
        return np.zeros(self.x.shape[1])

    def without(self, sites):
        kept = np.setdiff1d(np.arange(self.n_sites), sites)
        return Cox(self.x[kept], self.times[kept])


@dataclass(frozen=True)
class Laplace(Emission):
    """x_t ~ Laplace-like with a smooth corner, written as a user would: no derivatives."""

    def state_size(self, n_channels):
        return n_channels

    def unpack(self, states, n_channels):
        return states

    def pack(self, named):
        return named

    def minus_log_prior(self, rows):
        value, slopes = normal(rows, 0.0, 0.1)
        return anp.sum(value, axis=-1), slopes

    def log_density(self, row, frames):
        return -anp.sum(anp.sqrt(1.0 + (frames.x - row) ** 2), axis=1)
