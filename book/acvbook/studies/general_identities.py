"""What Zhu and Liu (2021) print as equalities and bounds, on a case small enough to differentiate.

Points on a line with a constant: logistic loss, all pairs, ridge. F of Eq. 2 is written out here
once more, so that its normalisers can be held fixed, as the theorems tacitly do, or be the sums of
weights that they are. theta_hat(w) is differentiated by differences of fits, of sixth order.
"""

from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
import pandas as pd
from autograd import hessian, jacobian

from .ladders import slopes

STEP, NEWTON = 0.02, 30  # of the differences, in weights; the most steps of a fit
CENTRAL = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}  # a first derivative from f(ih) - f(-ih), over h


class Case(NamedTuple):
    """X (p, 2), y (p,) of which the first s are labelled, and F's settings."""

    X: np.ndarray
    y: np.ndarray
    s: int
    gamma_p: float = 1.0
    gamma_i: float = 0.1
    fixed: bool = True  # normalisers s and p, or the sums of weights

    def single(self, theta, i):
        """Loss of point i."""
        return anp.logaddexp(0.0, -self.y[i] * anp.dot(self.X[i], theta))

    def pair(self, theta, i, j):
        """Loss of points i and j, manifold term with affinity exp(-|x_i - x_j|^2 / 2)."""
        apart = anp.sum((self.X[i] - self.X[j]) ** 2, axis=-1)
        return anp.exp(-apart / 2) * anp.dot(self.X[i] - self.X[j], theta) ** 2

    def F(self, theta, w):
        """Eq. 2, of weights w (p,)."""
        p, s = len(self.X), self.s
        every = np.arange(p)
        pairs = anp.dot(w, anp.dot(self.pair(theta, every[:, None], every), w))
        total, total_s = (p, s) if self.fixed else (anp.sum(w), anp.sum(w[:s]))
        single = anp.dot(w[:s], self.single(theta, np.arange(s))) / total_s
        ridge = self.gamma_i * anp.sum(theta**2)
        return single + self.gamma_p * pairs / total**2 + ridge

    def fit(self, w):
        """theta_hat(w), by Newton's method from 0."""
        theta = np.zeros(2)
        for _ in range(NEWTON):
            move = np.linalg.solve(hessian(self.F)(theta, w), jacobian(self.F)(theta, w))
            theta = theta - move
            if abs(move).max() < 1e-15:
                break
        return theta


def case(p, rng, share=0.5, **settings):
    """A `Case` of p points of which a share is labelled; features are bounded."""
    x = np.clip(rng.standard_normal(p), -2.0, 2.0)
    y = np.where(rng.random(p) < 1 / (1 + np.exp(-2.0 * x)), 1.0, -1.0)
    return Case(np.column_stack([x, np.ones(p)]), y, round(share * p), **settings)


def first(model, theta):
    """dtheta/dw_i of Theorem 3.1 as printed, at w = 1, of all points: (p, 2)."""
    H = hessian(model.F)(theta, np.ones(len(model.X)))
    return -np.linalg.solve(H, _pulls(model, theta, np.arange(len(model.X))).T).T


def _pulls(model, theta, sites):
    """What Theorem 3.1 applies the inverse of H to, of some points: (n, 2)."""
    return jacobian(lambda t: _shares(model, t, sites))(theta)


def _shares(model, theta, sites):
    """What each of some points adds to F, its pairs counted from both ends: (n,)."""
    p, labelled = len(model.X), sites < model.s
    pairs = anp.sum(model.pair(theta, sites[:, None], np.arange(p)), axis=1)
    own = anp.where(labelled, model.single(theta, sites), 0.0) / model.s
    return own + 2 * model.gamma_p / p**2 * pairs


def second(model, theta, pairs):
    """d^2 theta/dw_i dw_j of Theorem 4.1 as printed, at w = 1, of pairs of points: (n, 2)."""
    ones, p, moves = np.ones(len(model.X)), len(model.X), first(model, theta)
    H, T = hessian(model.F)(theta, ones), jacobian(hessian(model.F))(theta, ones)
    sites = np.unique(pairs)
    G = dict(zip(sites, jacobian(lambda t: _pulls(model, t, sites))(theta), strict=True))
    own = 2 * model.gamma_p / p**2 * jacobian(model.pair)(theta, *np.transpose(pairs))
    right = [
        g + G[i] @ moves[j] + G[j] @ moves[i] + moves[i] @ (T @ moves[j])
        for g, (i, j) in zip(own, pairs, strict=True)
    ]
    return -np.linalg.solve(H, np.transpose(right)).T


def measured(model, *sites):
    """The same derivatives, one site or two, by differences of fits."""
    if len(sites) == 1:
        ways = [(step,) for step in (-3, -2, -1, 1, 2, 3)]
    else:
        ways = [(a, b) for a in (-3, -2, -1, 1, 2, 3) for b in (-3, -2, -1, 1, 2, 3)]
    total = 0.0
    for way in ways:
        w = np.ones(len(model.X))
        factor = 1.0
        for site, step in zip(sites, way, strict=True):
            w[site] += step * STEP
            factor *= np.sign(step) * CENTRAL[abs(step)] / STEP
        total = total + factor * model.fit(w)
    return total


def gaps(rng, p=12):
    """Relative distance of Theorems 3.1 and 4.1 from the derivatives, normalisers held fixed and
    as they are (`moving`), worst of a labelled and an unlabelled point and of both: a dict.
    """
    model, found = case(p, rng), {}
    for name, kind in {"fixed": model, "moving": model._replace(fixed=False)}.items():
        theta = kind.fit(np.ones(p))
        moves = first(kind, theta)
        one = [_apart(moves[i], measured(kind, i)) for i in (0, p - 1)]
        found[f"first.{name}"] = max(one)
        (both,) = second(kind, theta, [(0, p - 1)])
        found[f"second.{name}"] = _apart(both, measured(kind, 0, p - 1))
    return found


def _apart(printed, true):
    return float(np.linalg.norm(printed - true) / np.linalg.norm(true))


def bounds(rng, sizes=(25, 50, 100)):
    """Lemmas 4.2 and 4.3 against the number of points, half of them labelled, one row a size.

    over: the largest |dtheta/dw_i| over Lemma 4.2's bound, its constants computed; second: the
    root mean square |d^2 theta/dw_i dw_j| of ten pairs of labelled points.
    """
    rows = {}
    for p in sizes:
        model = case(p, rng)
        theta = model.fit(np.ones(p))
        sigma = np.linalg.eigvalsh(hessian(model.F)(theta, np.ones(p)))[0]
        every = np.arange(p)
        slope = abs(jacobian(model.single)(theta, every[: model.s]))
        pulls = jacobian(model.pair)(theta, every[:, None], every)
        c_s, c_p = (np.linalg.norm(g, axis=-1).max() for g in (slope, pulls))
        bound = c_s / model.s + 2 * c_p * model.gamma_p / p
        moves = np.linalg.norm(first(model, theta), axis=1)
        both = second(model, theta, [(i, i + 1) for i in range(10)])
        over = moves.max() / (bound / sigma)
        rows[p] = {"over": over, "second": np.sqrt(np.mean(np.square(both)))}
    return pd.DataFrame(rows).T.rename_axis("points")


def lemmas(rng, n_draws):
    """Of many draws of `bounds`: first, the largest `over` of all sizes; the slope of `second`."""
    tables = [bounds(rng) for _ in range(n_draws)]
    rows = [{"first": t.over.max(), "second": slopes(t[["second"]]).second} for t in tables]
    return pd.DataFrame(rows)


def not_quadratic(epsilons, n_places=400):
    """Corollary 5.1: t-ACV on the quadratic F~ against t-CV on F, which is nowhere farther from it
    than epsilon, one fold, one parameter, evaluation loss theta; the largest error over places.

    F~ = (theta - b)^2 / 2 and F = F~ + epsilon sin^3(theta / epsilon^(1/3)): at theta = 0, where
    the expansion is, they agree to second order, and the third derivative is bounded for all
    epsilon. The refit is taken to the optimum next to b.
    """
    errors = []
    for epsilon in epsilons:
        k = epsilon ** (-1 / 3)
        worst = 0.0
        for b in 1.0 + np.linspace(0.0, 2.0 * np.pi / k, n_places):
            theta = b + np.linspace(-1.0, 1.0, 801) * 4.0 * epsilon * k
            F = (theta - b) ** 2 / 2 + epsilon * np.sin(k * theta) ** 3
            worst = max(worst, abs(theta[np.argmin(F)] - b))
        errors.append(worst)
    return pd.DataFrame({"error": errors}, pd.Index(epsilons, name="epsilon"))
