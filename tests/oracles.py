"""Brute force, independent of acvlib: what the fast code is measured against.

Chains are summed over all K^T paths; the traffic model is written out from Ghosh et al. (2020), Eqs. 4, 5,
9 and 10, so that autograd of the sum is the oracle of every derivative. Small models with known answers,
delete-and-refit by scipy, and wrappers that hide or count what a model offers stand at the end.
"""

import gc
from collections import Counter
from contextlib import contextmanager
from itertools import product

import autograd.numpy as anp
import numpy as np
from autograd import grad, hessian, jacobian
from autograd.scipy.special import gammaln, logsumexp
from scipy.optimize import minimize

# chains


def paths(n_sites, n_states):
    """All K^T paths, (K^T, T)."""
    return np.array(list(product(range(n_states), repeat=n_sites)))


def path_scores(node, edge, path):
    """sum_t node[t, z_t] + sum_t edge[t, z_t, z_t+1] of every path; differentiable."""
    steps = np.arange(path.shape[1])
    links = edge[steps[:-1], path[:, :-1], path[:, 1:]]
    return anp.sum(node[steps, path], axis=1) + anp.sum(links, axis=1)


def features(n_sites, n_states):
    """Indicators (K^T, T K + (T - 1) K^2) that a path is in a state, then that it takes a link."""
    path, eye = paths(n_sites, n_states), np.eye(n_states)
    visits = eye[path]
    links = visits[:, :-1, :, None] * visits[:, 1:, None, :]
    return np.concatenate([visits.reshape(len(path), -1), links.reshape(len(path), -1)], axis=1)


def log_partition_and_moments(node, edge):
    """(log Z, E[features], Cov[features]): the value, gradient and Hessian of log Z in all potentials."""
    phi = features(*node.shape)
    scores = phi @ np.concatenate([node.ravel(), edge.ravel()])
    log_z = logsumexp(scores)
    probability = np.exp(scores - log_z)
    mean = probability @ phi
    return log_z, mean, (phi - mean).T @ ((phi - mean) * probability[:, None])


def weighted_log_sum(log_density, log_initial, log_transition, weights, scheme):
    """log sum_z exp(log p(x, z; w)): Eqs. 4 and 9 for scheme "A", Eqs. 5 and 10 for "B"; differentiable."""
    path = paths(*log_density.shape)
    steps = np.arange(path.shape[1])
    total = anp.sum(weights * log_density[steps, path], axis=1)
    first, links = log_initial[path[:, 0]], log_transition[path[:, :-1], path[:, 1:]]
    if scheme == "A":
        return logsumexp(total + first + anp.sum(links, axis=1))
    return logsumexp(
        total + weights[0] * first + anp.sum(weights[1:] * weights[:-1] * links, axis=1)
    )


# the traffic model


def traffic_log_density(params, counts, day):
    """log p(x_t | z_t) (T, 2), zero where missing, by a sum over the excess; differentiable."""
    rows = [
        _site_log_density(params[d], params[7], params[8], x)
        for x, d in zip(counts, day, strict=True)
    ]
    return anp.array([[anp.array(entry) for entry in row] for row in rows])


def _site_log_density(log_rate, log_a, log_b, x):
    if x < 0:
        return 0.0 * log_rate, 0.0 * log_rate
    excess, a, b = np.arange(x + 1), anp.exp(log_a), anp.exp(log_b)
    poisson = (x - excess) * log_rate - anp.exp(log_rate) - gammaln(x - excess + 1.0)
    choose = gammaln(a + excess) - gammaln(a) - gammaln(excess + 1.0)
    negative_binomial = choose + a * (log_b - anp.log1p(b)) - excess * anp.log1p(b)
    return poisson[0], logsumexp(poisson + negative_binomial)


def traffic_chain(params):
    """(log stationary law (2,), log transition (2, 2)), from logits without cancellation."""
    log_stay, log_leave = -anp.logaddexp(0.0, -params[9:]), -anp.logaddexp(0.0, params[9:])
    initial = anp.array([log_leave[1], log_leave[0]]) - anp.logaddexp(log_leave[0], log_leave[1])
    return initial, anp.array([[log_stay[0], log_leave[0]], [log_leave[1], log_stay[1]]])


def traffic_objective(model, scheme):
    """F(params, weights) of a PoissonTraffic's data, by enumeration; its default prior from the paper."""

    def objective(params, weights):
        density = traffic_log_density(params, model.counts, model.day)
        rates, a, b = anp.mean(anp.exp(params[:7])), anp.exp(params[7]), anp.exp(params[8])
        return 0.01 * (rates + a + b) - weighted_log_sum(
            density, *traffic_chain(params), weights, scheme
        )

    return objective


def derivatives(objective, params, weights):
    """(F, gradient (D,), H (D, D), J (D, n_sites)) of any objective, by autograd."""
    cross = jacobian(grad(objective, 0), 1)(params, weights)
    return (
        objective(params, weights),
        grad(objective)(params, weights),
        hessian(objective)(params, weights),
        cross,
    )


def traffic_heldout(model, params, fold):
    """-log p(x_t | x outside the fold) by two sums over paths."""
    density, chain = traffic_log_density(params, model.counts, model.day), traffic_chain(params)
    outside = np.ones(model.n_sites)
    outside[fold] = 0.0
    base = weighted_log_sum(density, *chain, outside, "A")
    return np.array(
        [
            base - weighted_log_sum(density, *chain, outside + unit, "A")
            for unit in np.eye(len(outside))[fold]
        ]
    )


def simulate_traffic(rng, n_sites, days=40, missing=0.03):
    """(counts, day) of a series with clear but overlapping events, `days` sites a day; -1 where missing."""
    day = (np.arange(n_sites) // days) % 7
    event, state = np.zeros(n_sites, int), 0
    for t in range(n_sites):
        state = rng.random() > 0.95 if state == 0 else rng.random() < 0.85
        event[t] = state
    counts = rng.poisson(8.0 + day) + event * rng.negative_binomial(4.0, 0.4, n_sites)
    return np.where(rng.random(n_sites) < missing, -1, counts), day


TRAFFIC_PARAMS = np.array([2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.4, 1.2, -0.3, 2.8, 1.6])


def central_difference(function, params, step=1e-5):
    """Jacobian of a function by central differences, derivative axis last."""
    shifts = step * np.eye(len(params))
    return np.stack(
        [(function(params + s) - function(params - s)) / (2 * step) for s in shifts], axis=-1
    )


# small models with known answers


class Ridge:
    """F = sum_i w_i (y_i - x_i theta)^2 / 2 + |theta|^2 / 2: quadratic, linear in w, solved in closed form."""

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
    """F = sum_i w_i log(1 + exp(-y_i x_i theta)) + penalty |theta|^2 / 2, y = -1 or 1: not quadratic, linear in w."""

    def __init__(self, x, y, penalty=1.0):
        super().__init__(x, y)
        self.penalty = penalty

    def objective(self, params, weights):
        margin = self.y * (self.x @ params)
        return (
            anp.sum(weights * anp.logaddexp(0.0, -margin)) + self.penalty * anp.sum(params**2) / 2
        )

    def heldout_loss(self, params, fold):
        return np.logaddexp(0.0, -self.y[fold] * (self.x[fold] @ params))

    solution = None


class Instruments:
    """r = sum_i w_i u_i (y_i - x_i theta) = 0, instrumental variables: linear, its Jacobian not symmetric."""

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


class Saddle(Ridge):
    """F = sum_i w_i (theta_0^2 - theta_1^2) / (2 n): its Hessian at w = 1 is diag(1, -1), its gradient 0 at 0."""

    def objective(self, params, weights):
        return anp.sum(weights) / self.n_sites * (params[0] ** 2 - params[1] ** 2) / 2


def refit(objective, start, weights, gtol=1e-9):
    """argmin F(., weights) near start, by scipy's trust-region Newton method on autograd's derivatives."""
    done = minimize(
        objective,
        start,
        args=(weights,),
        jac=grad(objective),
        hess=hessian(objective),
        method="trust-exact",
        options={"gtol": gtol, "initial_trust_radius": 0.1},
    )
    return done.x


# wrappers


class WithoutFast:
    """A model whose fast paths are hidden, so that everything goes through autograd."""

    fast = None

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)


class Counting:
    """A model that counts, in `calls`, what is computed of it: by fast paths, or else by objective and residual.

    Without fast paths a gradient, a Hessian and a Hessian with cross-derivatives are one call each of
    `objective`: all are counted as "objective".
    """

    def __init__(self, model):
        self._model, self.calls = model, Counter()

    def __getattr__(self, name):
        found = getattr(self._model, name)
        if name in ("objective", "residual"):
            return self._counted(found, "objective")
        if name == "heldout_loss":
            return self._counted(found, "heldout")
        return found

    @property
    def fast(self):
        fast = getattr(self._model, "fast", None)
        return fast and CountingFast(fast, self.calls)

    def _counted(self, function, name):
        def counted(*args):
            self.calls[name] += 1
            return function(*args)

        return counted


class CountingFast:
    """Fast paths that count, fold by fold, under the names of `CVResult.evaluations`."""

    KIND = {
        "value_and_gradient": "gradient",
        "fold_gradients": "gradient",
        "hessian_and_cross": "hessian",
    }
    KIND |= {"fold_hessians": "hessian", "fold_heldout_losses": "heldout"}

    def __init__(self, fast, calls):
        self._fast, self._calls = fast, calls

    def __getattr__(self, name):
        getattr(self._fast, name)  # AttributeError for what is not offered

        def counted(params, folds):
            self._calls[self.KIND[name]] += len(folds) if name.startswith("fold_") else 1
            return getattr(self._fast, name)(params, folds)

        return counted


@contextmanager
def no_collector():
    """Here only what nothing refers to is freed: a cycle stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
