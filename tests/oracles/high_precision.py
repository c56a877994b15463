"""Refits with 50 digits by Newton's method, from the definition: sites are choices, or counts.

A choice has features (C, D) and offsets (C,) of all that might be observed: the classes of a row,
or the tag sequences of a sentence. A count has features (D,).
"""

from itertools import product
from typing import NamedTuple

import gmpy2
import numpy as np

gmpy2.get_context().precision = 170
LONG = np.frompyfunc(gmpy2.mpfr, 1, 1)
EXP = np.frompyfunc(gmpy2.exp, 1, 1)


class Site(NamedTuple):
    """observed: which of the choices, or None of a count of y."""

    features: np.ndarray
    offset: np.ndarray
    observed: int | None
    y: gmpy2.mpfr
    weight: gmpy2.mpfr

    def loss(self, theta):
        """-log p."""
        eta = self.features @ theta + self.offset
        if self.observed is None:
            return gmpy2.exp(eta) - self.y * eta + gmpy2.lgamma(self.y + 1)[0]
        odds = EXP(eta - eta[self.observed])
        return gmpy2.log1p(np.delete(odds, self.observed).sum())

    def expanded(self, theta, bends):
        """(its gradient (D,), its Hessian (D, D) if `bends`, else 0)."""
        eta = self.features @ theta + self.offset
        x = self.features
        if self.observed is None:
            mean = gmpy2.exp(eta)
            return (mean - self.y) * x, mean * np.outer(x, x) if bends else 0
        odds = EXP(eta - max(eta))
        shares = odds / odds.sum()
        mean = shares @ x
        bend = (x.T * shares) @ x - np.outer(mean, mean) if bends else 0
        return mean - x[self.observed], bend


def sites_of(model):
    """(the sites of a regression or of short sentences, the ridge (D,))."""
    if hasattr(model, "emissions"):
        each = zip(model.emissions, model.labels, model.sample_weight, strict=True)
        return [_sentence(*one) for one in each], LONG(model.ridge * np.ones(model.n_params))
    design = LONG(np.column_stack([np.ones((model.n_sites, int(model.intercept))), model.X]))
    spread = {"logistic": np.array([[0.0], [1.0]])}.get(model.family.name)
    spread = LONG(model.spread if spread is None else spread)
    sites = []
    for x, y, weight in zip(design, model.y, model.sample_weight, strict=True):
        if model.family.name in ("logistic", "multinomial"):
            features = np.array([np.kron(row, x) for row in spread])
            sites.append(Site(features, LONG(0.0), int(y), y, gmpy2.mpfr(weight)))
        else:
            sites.append(Site(x, LONG(0.0), None, gmpy2.mpfr(y), gmpy2.mpfr(weight)))
    return sites, LONG(model.prior)


def _sentence(scores, tags, weight):
    n, k = scores.shape
    paths = list(product(range(k), repeat=n))
    features = np.zeros((len(paths), 2 * k + k**2), int)
    for row, path in zip(features, paths, strict=True):
        row[path[0]] += 1
        row[k + k**2 + path[-1]] += 1
        for a, b in zip(path, path[1:], strict=False):
            row[k + k * a + b] += 1
    emitted = LONG(scores)
    offset = np.array([sum(emitted[range(n), path]) for path in paths])
    return Site(LONG(features), offset, paths.index(tuple(tags)), 0.0, gmpy2.mpfr(weight))


def expanded(sites, ridge, theta, bends=True):
    """(gradient, Hessian) of the penalised sum."""
    gradient, hessian = ridge * theta, np.diag(ridge)
    for site in sites:
        slope, bend = site.expanded(theta, bends)
        gradient = gradient + site.weight * slope
        hessian = hessian + site.weight * bend
    return gradient, hessian


def refit(sites, ridge, start):
    """The minimum (D,) from a start; None where there is none within 5,000 steps.

    Hessians are computed anew where a step with the last one gains less than three digits.
    """
    theta = LONG(start)
    last, hessian = 0, None
    for _ in range(5000):
        gradient, _ = expanded(sites, ridge, theta, False)
        if hessian is None or gradient @ solved(hessian, gradient) > last / 1e6:
            gradient, hessian = expanded(sites, ridge, theta)
        step = solved(hessian, gradient)
        last = step @ gradient
        if last < gmpy2.mpfr(10) ** -60:
            return theta - step
        far = 1
        if last > 1e-4:  # no score moves by more than 1
            far = max(far, *(abs(np.ravel(site.features @ step)).max() for site in sites))
        theta = theta - step / far
    return None


def solved(H, g):
    """H^-1 g of positive definite H, by elimination."""
    A = np.column_stack([H, g])
    n = len(g)
    for k in range(n):
        A[k + 1 :] = A[k + 1 :] - np.outer(A[k + 1 :, k] / A[k, k], A[k])
    x = np.zeros(n, object)
    for k in reversed(range(n)):
        x[k] = (A[k, n] - A[k, k + 1 : n] @ x[k + 1 :]) / A[k, k]
    return x
