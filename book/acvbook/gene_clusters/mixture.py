"""Stage two of the genomics model: a Gaussian mixture of the genes' regressions.

Gene g has position x_g = T beta_g and precision A_g = [T (S_g + rho I) T']^-1. The clustering
minimises
    F = -sum_g log sum_k pi_k exp(-(x_g - mu_k)' A_g (x_g - mu_k) / 2)
        + e sum_k |mu_k|^2 / 2 - (a - 1) sum_k log pi_k
over the centroids mu (K, d) and pi = softmax(0, log odds).
Source: Giordano et al. (2019), Section 6 and Appendix B.

Newton's method with Levenberg's damping solves [H + damping diag(|H|)] step = -gradient, the
diagonal bounded from below; damping rises until the matrix is positive definite and F falls, and
drops again after a step, so that the last steps are Newton's.
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from acvlib.solvers.inverse import DenseHessian

from .regression import Regression


class Positions(NamedTuple):
    """centre (n_genes, d) and precision (n_genes, d, d) of each gene: what is clustered."""

    centre: np.ndarray
    precision: np.ndarray


@dataclass(frozen=True)
class GeneMixture:
    """Values and derivatives of stage two; parameters are the centroids (K d), then K - 1 log odds.

    transform: T (d, p); regularisation: rho; centroid_precision: e; concentration: a.
    """

    transform: np.ndarray
    n_clusters: int
    regularisation: float
    centroid_precision: float
    concentration: float

    @property
    def cut(self) -> int:
        """K d, where the log odds begin."""
        return self.n_clusters * len(self.transform)

    def positions(self, regression: Regression) -> Positions:
        """The positions of regressed genes; differentiable."""
        inverse = anp.linalg.inv(regression.cholesky)
        ridge = self.regularisation * np.eye(inverse.shape[-1])
        covariance = anp.matmul(anp.swapaxes(inverse, 1, 2), inverse) + ridge
        spread = anp.matmul(anp.matmul(self.transform, covariance), self.transform.T)
        centre = anp.dot(regression.coefficients, self.transform.T)
        return Positions(centre, anp.linalg.inv(spread))

    def unpack(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(centroids (K, d), log shares (K,)); differentiable."""
        odds = anp.concatenate([np.zeros(1), flat[self.cut :]])
        centroids = flat[: self.cut].reshape(self.n_clusters, -1)
        return centroids, odds - _log_sum(odds)

    def pack(self, centroids: np.ndarray, log_shares: np.ndarray) -> np.ndarray:
        """The parameters (K d + K - 1,) of centroids and log shares."""
        return np.concatenate([np.ravel(centroids), log_shares[1:] - log_shares[0]])

    def scores(self, flat: np.ndarray, positions: Positions) -> tuple[np.ndarray, np.ndarray]:
        """(log joint densities (n_genes, K), pulls A_g (x_g - mu_k) (n_genes, K, d))."""
        centroids, log_shares = self.unpack(flat)
        away = positions.centre[:, None, :] - centroids
        pulls = anp.matmul(away, positions.precision)
        return log_shares - 0.5 * anp.sum(pulls * away, axis=2), pulls

    def memberships(self, flat: np.ndarray, positions: Positions) -> np.ndarray:
        """Posterior probabilities of the clusters, (n_genes, K)."""
        scores, _ = self.scores(flat, positions)
        return anp.exp(scores - _log_sum(scores))

    def objective(self, flat: np.ndarray, positions: Positions) -> float:
        """F."""
        centroids, log_shares = self.unpack(flat)
        scores, _ = self.scores(flat, positions)
        by_centroids = 0.5 * self.centroid_precision * anp.sum(centroids**2)
        by_shares = (self.concentration - 1.0) * anp.sum(log_shares)
        return by_centroids - by_shares - anp.sum(_log_sum(scores))

    def gradient(self, flat: np.ndarray, positions: Positions) -> np.ndarray:
        """dF / dparams, (K d + K - 1,); differentiable."""
        centroids, log_shares = self.unpack(flat)
        scores, pulls = self.scores(flat, positions)
        members = anp.exp(scores - _log_sum(scores))
        pulled = anp.sum(members[:, :, None] * pulls, axis=0)
        by_centroid = self.centroid_precision * centroids - pulled
        counts = anp.sum(members, axis=0) + self.concentration - 1.0
        by_share = anp.sum(counts) * anp.exp(log_shares) - counts
        return anp.concatenate([by_centroid.ravel(), by_share[1:]])

    def hessian(self, flat: np.ndarray, positions: Positions) -> np.ndarray:
        """d2F / dparams2: Louis' formula, expected curvature minus the covariance of the scores."""
        scores, pulls = self.scores(flat, positions)
        members = np.exp(scores - _log_sum(scores))
        pulled = members[:, :, None] * pulls
        by_gene = np.column_stack([pulled.reshape(len(members), self.cut), members])
        full = by_gene.T @ by_gene
        centroid = np.arange(self.cut).reshape(self.n_clusters, -1)
        share = self.cut + np.arange(self.n_clusters)
        totals = pulled.sum(axis=0)
        by_centroid = self._by_centroid(members, pulls, positions)
        full[centroid[:, :, None], centroid[:, None, :]] += by_centroid
        full[centroid, share[:, None]] -= totals
        full[share[:, None], centroid] -= totals
        full[self.cut :, self.cut :] += self._by_shares(flat, members.sum(axis=0))
        kept = np.delete(np.arange(len(full)), self.cut)  # the first log odds are 0
        return full[np.ix_(kept, kept)]

    def _by_centroid(self, members, pulls, positions):
        """Curvature of each centroid given its members, less what they pull apart, (K, d, d)."""
        expected = np.tensordot(members.T, positions.precision, 1)
        pulled = members[:, :, None] * pulls
        missing = pulled.transpose(1, 2, 0) @ pulls.swapaxes(0, 1)
        return expected - missing + self.centroid_precision * np.eye(len(self.transform))

    def _by_shares(self, flat, counts):
        """Curvature in the log odds given the members, less the members' own variance, (K, K)."""
        _, log_shares = self.unpack(flat)
        shares = np.exp(log_shares)
        total = counts.sum() + self.n_clusters * (self.concentration - 1.0)
        return total * (np.diag(shares) - np.outer(shares, shares)) - np.diag(counts)


def _log_sum(scores):
    """log sum exp over the last axis, which is kept; scipy's takes far longer at this size."""
    top = anp.max(scores, axis=-1, keepdims=True)
    return top + anp.log(anp.sum(anp.exp(scores - top), axis=-1, keepdims=True))


MAX_STEPS = 200
GRADIENT = 1e-9  # norm that ends the search
SLACK = 1e-12  # relative rounding error of the objective, below which descent cannot be seen
FLOOR = 1e-6  # of the largest: the least diagonal entry that damping goes by
GIVE_UP = 1e8  # damping beyond which no step will descend


class Minimum(NamedTuple):
    """Where a search ended; decrement: the distance left, in standard errors, inf at a saddle."""

    params: np.ndarray
    indefinite: bool
    decrement: float
    steps: int


def minimise(mixture: GeneMixture, start: np.ndarray, positions: Positions) -> Minimum:
    """Minimise the objective of a mixture from `start`."""
    params = start
    damping = 0.0
    for steps in range(MAX_STEPS + 1):
        gradient = mixture.gradient(params, positions)
        hessian = DenseHessian(mixture.hessian(params, positions))
        if np.linalg.norm(gradient) <= GRADIENT or damping > GIVE_UP or steps == MAX_STEPS:
            break
        params, damping = _step(mixture, params, positions, gradient, hessian.matrix, damping)
    indefinite = hessian.indefinite
    decrement = np.inf if indefinite else np.sqrt(gradient @ hessian.solve(gradient))
    return Minimum(params, indefinite, float(decrement), steps)


def _step(mixture, params, positions, gradient, hessian, damping):
    """(new params, damping for the next step); the same params where no damping brings descent."""
    value = mixture.objective(params, positions)
    highest = value + SLACK * (1.0 + abs(value))
    diagonal = np.abs(np.diag(hessian))
    scale = np.maximum(diagonal, FLOOR * diagonal.max())
    while damping <= GIVE_UP:
        damped = DenseHessian(hessian + np.diag(damping * scale))
        if not damped.indefinite:
            trial = params - damped.solve(gradient)
            if mixture.objective(trial, positions) <= highest:
                return trial, damping / 10.0 if damping > 1e-3 else 0.0
        damping = max(4.0 * damping, 1e-4)
    return params, damping
