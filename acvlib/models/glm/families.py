"""Response families of a GLM: each a loss -log p(y | eta), convex in eta, with its derivatives."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import autograd.numpy as anp
import numpy as np
from scipy.linalg import helmert
from scipy.special import erfcx, expit, gammaln, logit, ndtr, ndtri

from ...checks import check_choice, one_line, read_only


class _OfScores:
    """A family whose losses depend on differences of scores, which are contrasts (K, q) @ eta."""

    __repr__ = one_line
    contrasts = np.array([[0.0], [1.0]])
    coupled = 1  # q

    def apart(self, eta: np.ndarray) -> np.ndarray:
        """The largest difference of two scores, (..., n)."""
        return np.ptp(np.matmul(self.contrasts, eta), axis=-2)

    def spreads(self, leverage: np.ndarray) -> np.ndarray:
        """How far two scores of a site move apart, at most, by a standard error, (n,)."""
        apart = self.contrasts[:, None] - self.contrasts  # (K, K, q)
        squares = np.einsum("kli,nij,klj->nkl", apart, leverage, apart, optimize=True)
        return np.sqrt(squares.max(axis=(1, 2)))


@dataclass(frozen=True, repr=False)
class Family(_OfScores):
    """A loss of one linear predictor, of which several targets take the sum.

    Functions of eta and y, elementwise; `loss` is differentiable by autograd, and convex in eta.

    slope, curvature: the derivatives of loss in eta. mean, link: E[y | eta] and its inverse.
    accepts, response: which y are possible, as a function and in words.
    free_direction(y): 1, -1 where the loss never rises as eta goes to plus, minus infinity, else 0.
    change(d, mean): [slope(eta + d) - slope(eta)] / curvature(eta) without cancellation; may use d.
    quadratic: the curvature is the same everywhere.
    self_concordant: |third derivative| <= curvature, so that this changes at most e-fold a unit.
    lacking: in words, y of which an intercept has no finite optimum.
    """

    name: str
    loss: Callable
    slope: Callable
    curvature: Callable
    mean: Callable
    link: Callable
    accepts: Callable
    response: str
    free_direction: Callable
    change: Callable | None = None
    quadratic: bool = False
    self_concordant: bool = False
    lacking: str = "responses of one class alone"

    def __reduce__(self):
        """Pickle a family of the library as this module's variable: its functions have no names."""
        known = FAMILIES.get(self.name) is self
        return self.name.replace(" ", "_") if known else (Family, tuple(vars(self).values()))

    def losses(self, eta: Any, y: np.ndarray) -> Any:
        """-log p(y | eta) (..., n) of eta (..., q, n)."""
        return anp.sum(self.loss(eta, y), axis=-2)

    def certainty(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """-log |slope| (..., n) of y whose loss never rises one way, in no unit of eta; else 0."""
        with np.errstate(all="ignore"):  # far off, where it is infinite or nan
            slope = np.fmax(abs(self.slope(eta, y)), np.finfo(float).tiny)[..., 0, :]
        return -np.log(np.minimum(slope, 1.0)) * (self.free_direction(y) != 0)

    def curvatures(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Second derivatives in the predictors, (n, q, q)."""
        return self.curvature(eta, y).T[:, :, None] * np.eye(len(eta))

    def means(self, eta: np.ndarray) -> np.ndarray:
        """E[y | eta], (n,), or (n, q) of several targets."""
        mean = self.mean(eta)
        return mean[0] if len(mean) == 1 else mean.T

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The intercepts that fit the means."""
        return self.link(np.average(y, axis=-1, weights=weights))

    def gains(self, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows (n, D), which way each lowers its loss for ever), for `separating_direction`."""
        return design, self.free_direction(y)

    def kinds(self, y: np.ndarray) -> np.ndarray:
        """Flags (n, 2): of each an intercept needs one site, or runs to plus, minus infinity."""
        free = self.free_direction(y)
        return np.stack([free != 1, free != -1], axis=1)


# y ~ N(eta, 1)
gaussian = Family(
    name="gaussian",
    loss=lambda eta, y: 0.5 * (y - eta) ** 2 + 0.5 * np.log(2 * np.pi),
    slope=lambda eta, y: eta - y,
    curvature=lambda eta, y: np.ones_like(eta),
    mean=lambda eta: eta,
    link=lambda mean: mean,
    accepts=np.isfinite,
    response="finite numbers",
    free_direction=lambda y: np.zeros(len(y), int),
    quadratic=True,
    self_concordant=True,
)


def _logistic_change(d, mean):
    grown = np.expm1(d, out=d)
    return grown / (grown * mean + 1)


# y ~ Bernoulli(1 / (1 + exp(-eta)))
logistic = Family(
    name="logistic",
    loss=lambda eta, y: anp.logaddexp(0.0, (1 - 2 * y) * eta),
    slope=lambda eta, y: expit(eta) - y,
    curvature=lambda eta, y: expit(eta) * expit(-eta),
    mean=expit,
    link=logit,
    accepts=lambda y: (y == 0) | (y == 1),
    response="0 or 1",
    free_direction=lambda y: np.where(y == 1, 1, -1),
    change=_logistic_change,
    self_concordant=True,
)

# y ~ Poisson(exp(eta))
poisson = Family(
    name="poisson",
    loss=lambda eta, y: anp.exp(eta) - y * eta + gammaln(y + 1.0),
    slope=lambda eta, y: np.exp(eta) - y,
    curvature=lambda eta, y: np.exp(eta),
    mean=np.exp,
    link=np.log,
    accepts=lambda y: (y >= 0) & (y == np.floor(y)) & (y <= 2.0**53),
    response="whole numbers >= 0, up to 2**53",
    free_direction=lambda y: np.where(y == 0, -1, 0),
    self_concordant=True,
    lacking="counts of 0 alone",
)

# y >= 0 with mean exp(eta), y not counted but measured, such as counts over an exposure
poisson_rate = replace(
    poisson,
    name="poisson rate",
    accepts=lambda y: (y >= 0) & np.isfinite(y),
    response="finite numbers >= 0",
)


def _probit_loss(eta, y):
    from autograd.scipy.stats import norm  # loads all of scipy.stats: not at import

    return -norm.logcdf((2 * y - 1) * eta)


def _probit_slope(eta, y):
    """-phi(eta) / Phi(eta) of y = 1, to a few epsilons at any eta, and its mirror image of 0."""
    sign = 2 * y - 1
    return -sign * np.sqrt(2.0 / np.pi) / erfcx(-sign * eta / np.sqrt(2.0))


def _probit_curvature(eta, y):
    slope = _probit_slope(eta, y)
    return slope * (slope - eta)


# y ~ Bernoulli(Phi(eta))
probit = replace(
    logistic,
    name="probit",
    loss=_probit_loss,
    slope=_probit_slope,
    curvature=_probit_curvature,
    mean=ndtr,
    link=ndtri,
    change=None,
    self_concordant=False,
)


class Multinomial(_OfScores):
    """loss = log sum_k exp(scores_k) - scores_y, scores (K,) = Q eta, y in 0, ..., K - 1.

    Adding a number to all scores changes nothing, and penalised coefficients sum to 0: Q (K, K - 1)
    is an orthonormal basis of what is left. Its functions are those of a `Family`.
    """

    name = "multinomial"
    quadratic = False
    self_concordant = True
    change = None
    lacking = "no site of class {}"

    def __init__(self, n_classes: int):
        self.n_classes = n_classes
        self.coupled = n_classes - 1
        self.contrasts = np.ascontiguousarray(helmert(n_classes).T)

    def losses(self, eta: Any, y: np.ndarray) -> Any:
        """-log p(y | eta), (..., n)."""
        scores = anp.matmul(self.contrasts, eta)
        highest = anp.max(scores, axis=-2)
        total = anp.sum(anp.exp(scores - highest[..., None, :]), axis=-2)
        return highest + anp.log(total) - scores[..., y, np.arange(len(y))]

    def slope(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The derivative of the loss, (..., q, n)."""
        shares = self._shares(eta)
        shares[..., y, np.arange(len(y))] -= 1.0
        return np.matmul(self.contrasts.T, shares)

    def certainty(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """How far the scores of a site are apart, (..., n)."""
        return self.apart(eta)

    def curvatures(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Q' (diag p - p p') Q, (n, q, q)."""
        shares = self.means(eta)
        along = shares @ self.contrasts
        products = self.contrasts[:, :, None] * self.contrasts[:, None, :]
        return np.tensordot(shares, products, axes=1) - along[:, :, None] * along[:, None, :]

    def means(self, eta: np.ndarray) -> np.ndarray:
        """p(k | eta), (n, K)."""
        return self._shares(eta).T

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The intercepts (q,) that fit the shares of the classes."""
        return self.contrasts.T @ np.log(np.bincount(y, weights))

    def gains(self, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(how much a direction raises the score of each y over every one (n K, D), ones)."""
        over = self.contrasts[y, None] - self.contrasts  # (n, K, q)
        rows = over.reshape(-1, self.coupled, 1) * design.repeat(self.n_classes, axis=0)[:, None]
        return rows.reshape(len(rows), -1), np.ones(len(rows), int)

    def kinds(self, y: np.ndarray) -> np.ndarray:
        """Flags (n, K): of each class there must be a site."""
        return y[:, None] == np.arange(self.n_classes)

    def _shares(self, eta):
        """p (..., K, n), in half the time of scipy's softmax."""
        shares = np.matmul(self.contrasts, eta)
        shares -= shares.max(axis=-2, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=-2, keepdims=True)
        return shares


FAMILIES = {family.name: family for family in (gaussian, logistic, poisson, poisson_rate, probit)}


def settled(family: Any, y: np.ndarray) -> tuple[Family | Multinomial, np.ndarray]:
    """(the family of that name, y as it takes them). Raises ValueError for y that it does not."""
    if isinstance(family, Multinomial) or family == "multinomial":
        if y.ndim > 1:
            flat = "y.ravel()" if y.shape[1] == 1 else "y.argmax(axis=1) of ones and zeros"
            raise ValueError(f"y {y.shape} must be classes, one a row: pass {flat}")
        whole = np.isin(y, np.arange(len(y)))
        if not whole.all():
            raise ValueError(f"y must be classes 0, 1, ..., one a row; found {y[~whole][:3]}")
        classes = read_only(y, int)
        return Multinomial(max(2, classes.max() + 1)), classes
    if not isinstance(family, Family):
        check_choice("family", family, [*FAMILIES, "multinomial"])
        family = FAMILIES[family]
    if y.ndim > 1 and not family.quadratic:
        remedy = "pass y.ravel()" if y.shape[1] == 1 else "fit one model to each"
        raise ValueError(f"y {y.shape}: several targets are of the gaussian family alone: {remedy}")
    bad = y[~family.accepts(y)]
    if bad.size:
        rule = f"y of the {family.name} family must be {family.response}"
        raise ValueError(f"{rule}; found {bad[:3]}")
    return family, y
