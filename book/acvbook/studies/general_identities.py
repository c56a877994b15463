"""What Zhu and Liu (2021) print as equalities and bounds, on cases small enough to differentiate.

F of Eq. 2 is written out here once more, so that its normalisers can be held fixed, as printed, or
be sums of weights.
"""

import itertools
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
import pandas as pd
from autograd import hessian, jacobian

from .ladders import slopes

STEP, NEWTON = 0.02, 8  # of differences of fits, in weights; steps of a fit
CENTRAL = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}  # derivative from f(ih) - f(-ih), over h: sixth order


class Case(NamedTuple):
    """Points X (p, 2), of which the first s have a label of y (p,): logistic loss, all pairs with
    affinity exp(-|x_i - x_j|^2 / 2), ridge.
    """

    X: np.ndarray
    y: np.ndarray
    s: int
    gamma_p: float = 1.0
    gamma_i: float = 0.1
    fixed: bool = True  # normalisers s and p, or the sums of weights

    def single(self, theta, i):
        return anp.logaddexp(0.0, -self.y[i] * anp.dot(self.X[i], theta))

    def pair(self, theta, i, j):
        gap = self.X[i] - self.X[j]
        return anp.exp(-anp.sum(gap**2, axis=-1) / 2) * anp.dot(gap, theta) ** 2

    def F(self, theta, w):
        """Eq. 2 for weights w (p,)."""
        every, labelled = np.arange(len(w)), np.arange(self.s)
        total, total_s = (len(w), self.s) if self.fixed else (anp.sum(w), anp.sum(w[: self.s]))
        pairs = anp.dot(w, anp.dot(self.pair(theta, every[:, None], every), w))
        single = anp.dot(w[: self.s], self.single(theta, labelled))
        ridge = self.gamma_i * anp.sum(theta**2)
        return single / total_s + self.gamma_p * pairs / total**2 + ridge

    def fit(self, w):
        """theta_hat(w), by Newton's method from 0."""
        theta = np.zeros(2)
        for _ in range(NEWTON):
            theta = theta - np.linalg.solve(hessian(self.F)(theta, w), jacobian(self.F)(theta, w))
        return theta

    def shares(self, theta, sites):
        """What each of some points adds to F, its pairs counted from both ends: (n,)."""
        p = len(self.X)
        pairs = anp.sum(self.pair(theta, sites[:, None], np.arange(p)), axis=1)
        own = anp.where(sites < self.s, self.single(theta, sites), 0.0) / self.s
        return own + 2 * self.gamma_p / p**2 * pairs


def case(p, rng):
    """A `Case` of p points, half of them labelled; features are bounded."""
    x = np.clip(rng.standard_normal(p), -2.0, 2.0)
    y = np.where(rng.random(p) < 1 / (1 + np.exp(-2.0 * x)), 1.0, -1.0)
    return Case(np.column_stack([x, np.ones(p)]), y, p // 2)


def first(model, theta):
    """dtheta/dw_i of Theorem 3.1 as printed, at w = 1, of all points: (p, 2)."""
    every = np.arange(len(model.X))
    H = hessian(model.F)(theta, np.ones(len(every)))
    return -np.linalg.solve(H, jacobian(model.shares)(theta, every).T).T


def second(model, theta, pairs):
    """d^2 theta/dw_i dw_j of Theorem 4.1 as printed, at w = 1, of pairs of points: (n, 2)."""
    ones, moves, sites = np.ones(len(model.X)), first(model, theta), np.unique(pairs)
    H, T = hessian(model.F)(theta, ones), jacobian(hessian(model.F))(theta, ones)
    G = dict(zip(sites, jacobian(jacobian(model.shares))(theta, sites), strict=True))
    both = 2 * model.gamma_p / len(ones) ** 2 * jacobian(model.pair)(theta, *np.transpose(pairs))
    right = [
        own + G[i] @ moves[j] + G[j] @ moves[i] + moves[i] @ (T @ moves[j])
        for own, (i, j) in zip(both, pairs, strict=True)
    ]
    return -np.linalg.solve(H, np.transpose(right)).T


def measured(model, *sites):
    """The same derivatives in the weights of one site, or of two, by differences of fits."""
    total = 0.0
    for steps in itertools.product((-3, -2, -1, 1, 2, 3), repeat=len(sites)):
        w = np.ones(len(model.X))
        w[list(sites)] += np.array(steps) * STEP
        factor = np.prod([np.sign(k) * CENTRAL[abs(k)] / STEP for k in steps])
        total = total + factor * model.fit(w)
    return total


def gaps(rng, p=12):
    """Relative distance of Theorems 3.1 and 4.1 from the derivatives, normalisers held `fixed` or
    `moving` with the weights, for the first point, which has a label, and the last: a dict.
    """
    model, found, last = case(p, rng), {}, p - 1
    for name, kind in {"fixed": model, "moving": model._replace(fixed=False)}.items():
        theta = kind.fit(np.ones(p))
        moves, (both,) = first(kind, theta), second(kind, theta, [(0, last)])
        found[f"first.{name}"] = max(_apart(moves[i], measured(kind, i)) for i in (0, last))
        found[f"second.{name}"] = _apart(both, measured(kind, 0, last))
    return found


def _apart(printed, true):
    return float(np.linalg.norm(printed - true) / np.linalg.norm(true))


def bounds(rng, sizes=(25, 100)):
    """By number of points: over, the largest |dtheta/dw_i| over Lemma 4.2's bound, its constants
    computed; second, the root mean square d^2 theta/dw_i dw_j of pairs of labelled points.
    """
    rows = {}
    for p in sizes:
        model, every = case(p, rng), np.arange(p)
        theta = model.fit(np.ones(p))
        sigma = np.linalg.eigvalsh(hessian(model.F)(theta, np.ones(p)))[0]
        slope = jacobian(model.single)(theta, every[: model.s])
        pulls = jacobian(model.pair)(theta, every[:, None], every)
        c_s, c_p = (np.linalg.norm(g, axis=-1).max() for g in (slope, pulls))
        bound = (c_s / model.s + 2 * c_p * model.gamma_p / p) / sigma
        both = second(model, theta, [(i, i + 1) for i in range(model.s - 1)])
        over = np.linalg.norm(first(model, theta), axis=1).max() / bound
        rows[p] = {"over": over, "second": np.sqrt(np.mean(both**2))}
    return pd.DataFrame(rows).T.rename_axis("points")


def lemmas(rng, n_draws):
    """Of many draws of `bounds`: first, the largest `over` of all sizes; the slope of `second`."""
    tables = [bounds(rng) for _ in range(n_draws)]
    rows = [{"first": t.over.max(), "second": slopes(t[["second"]]).second} for t in tables]
    return pd.DataFrame(rows)


def not_quadratic(epsilons, n_places=400):
    """Corollary 5.1, one parameter, evaluation loss theta: the largest distance of the optimum b of
    a quadratic F~ from that of F = F~ + epsilon sin^3(theta / epsilon^(1/3)) next to it, over b.

    At 0, where the expansion is, both agree to second order; F's third derivative is bounded.
    """
    errors = {}
    for epsilon in epsilons:
        k = epsilon ** (-1 / 3)
        move = np.linspace(-4.0, 4.0, 801) * epsilon * k
        b = 1.0 + np.linspace(0.0, 2.0 * np.pi / k, n_places)[:, None]
        F = move**2 / 2 + epsilon * np.sin(k * (b + move)) ** 3
        errors[epsilon] = abs(move[F.argmin(axis=1)]).max()
    return pd.DataFrame({"error": errors}).rename_axis("epsilon")
