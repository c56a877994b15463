"""Brute force, independent of acvlib: sums over all K^T paths of a chain.

The traffic model is written out from Ghosh et al. (2020), Eqs. 4, 5, 9 and 10, so that autograd of
the sum is the oracle of every derivative.
"""

from itertools import product

import autograd.numpy as anp
import numpy as np
from autograd.scipy.special import gammaln, logsumexp


def paths(n_sites, n_states):
    """All K^T paths, (K^T, T)."""
    return np.array(list(product(range(n_states), repeat=n_sites)))


def path_scores(node, edge, path):
    """sum_t node[t, z_t] + sum_t edge[t, z_t, z_t+1] of every path; differentiable."""
    steps = np.arange(path.shape[1])
    links = edge[steps[:-1], path[:, :-1], path[:, 1:]]
    return anp.sum(node[steps, path], axis=1) + anp.sum(links, axis=1)


def scored_paths(node, log_initial, log_transition, known=np.nan):
    """(every path through what is known of its states, log p(x, z) of each); differentiable."""
    path = paths(*node.shape)
    path = path[((path == known) | np.isnan(known)).all(axis=1)]
    edge = log_transition + np.zeros((len(node) - 1, 1, 1))
    return path, log_initial[path[:, 0]] + path_scores(node, edge, path)


def features(n_sites, n_states, edges):
    """Indicators of all states of nodes, then of edges (E, 2), of each of all K^T paths."""
    path, eye = paths(n_sites, n_states), np.eye(n_states)
    links = eye[path[:, edges[:, 0]]][..., :, None] * eye[path[:, edges[:, 1]]][..., None, :]
    return np.concatenate([eye[path].reshape(len(path), -1), links.reshape(len(path), -1)], axis=1)


def log_partition_and_moments(node, edge, edges=None):
    """(log Z, E[features], Cov[features]) of a graph, of a chain if there are no `edges`."""
    steps = np.arange(len(node))
    edges = np.stack([steps[:-1], steps[1:]], axis=1) if edges is None else edges
    phi = features(*node.shape, edges)
    scores = phi @ np.concatenate([node.ravel(), edge.ravel()])
    log_z = logsumexp(scores)
    probability = np.exp(scores - log_z)
    mean = probability @ phi
    return log_z, mean, (phi - mean).T @ ((phi - mean) * probability[:, None])


def weighted_log_sum(log_density, log_initial, log_transition, weights, scheme):
    """log sum_z exp(log p(x, z; w)): Eqs. 4 and 9 for scheme "A", Eqs. 5 and 10 for "B"."""
    path = paths(*log_density.shape)
    steps = np.arange(path.shape[1])
    total = anp.sum(weights * log_density[steps, path], axis=1)
    first, links = log_initial[path[:, 0]], log_transition[path[:, :-1], path[:, 1:]]
    if scheme == "A":
        return logsumexp(total + first + anp.sum(links, axis=1))
    links = anp.sum(weights[1:] * weights[:-1] * links, axis=1)
    return logsumexp(total + weights[0] * first + links)


def traffic_log_density(params, counts, day):
    """log p(x_t | z_t) (T, 2), zero where missing, by a sum over the excess; differentiable."""
    each = zip(counts, day, strict=True)
    rows = [_site_log_density(params[d], params[7], params[8], x) for x, d in each]
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
    """F(params, weights) of a PoissonTraffic by enumeration; its default prior from the paper."""

    def objective(params, weights):
        density = traffic_log_density(params, model.counts, model.day)
        rates, a, b = anp.mean(anp.exp(params[:7])), anp.exp(params[7]), anp.exp(params[8])
        total = weighted_log_sum(density, *traffic_chain(params), weights, scheme)
        return 0.01 * (rates + a + b) - total

    return objective


def traffic_heldout(model, params, fold):
    """-log p(x_t | x outside the fold) by two sums over paths."""
    density, chain = traffic_log_density(params, model.counts, model.day), traffic_chain(params)
    outside = np.ones(model.n_sites)
    outside[fold] = 0.0
    base = weighted_log_sum(density, *chain, outside, "A")
    weightings = outside + np.eye(len(outside))[fold]
    return np.array([base - weighted_log_sum(density, *chain, w, "A") for w in weightings])
