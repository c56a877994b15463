"""Stage two of the genomics model: a Gaussian mixture of the genes' regressions, as seen through a transform.

Gene g has position x_g = T beta_g and precision A_g = [T (S_g + rho I) T']^-1. The clustering minimises
    F = -sum_g log sum_k pi_k exp(-(x_g - mu_k)' A_g (x_g - mu_k) / 2) + e sum_k |mu_k|^2 / 2 - (a - 1) sum_k log pi_k
over the centroids mu (K, d) and pi = softmax(0, log odds). Source: Giordano et al. (2019), Section 6 and Appendix B.
"""

from typing import NamedTuple

import autograd.numpy as np
import numpy as onp


class Positions(NamedTuple):
    """centre (n_genes, d) and precision (n_genes, d, d) of each gene: what is clustered."""

    centre: onp.ndarray
    precision: onp.ndarray


class GeneMixture:
    """Values and derivatives of stage two; parameters are the centroids (K d), then K - 1 log odds."""

    def __init__(self, transform, n_clusters, regularisation, centroid_precision, concentration):
        self.transform, self.n_clusters, self.regularisation = transform, n_clusters, regularisation
        self.centroid_precision, self.concentration = centroid_precision, concentration
        self.dim = len(transform)
        self.size = n_clusters * (self.dim + 1) - 1

    def positions(self, regression):
        """The `Positions` of a `Regression`; differentiable."""
        inverse = np.linalg.inv(regression.cholesky)
        covariance = np.matmul(np.swapaxes(inverse, 1, 2), inverse) + self.regularisation * onp.eye(
            inverse.shape[-1]
        )
        spread = np.matmul(np.matmul(self.transform, covariance), self.transform.T)
        return Positions(np.dot(regression.coefficients, self.transform.T), np.linalg.inv(spread))

    def unpack(self, flat):
        """(centroids (K, d), log shares (K,)); differentiable."""
        cut = self.n_clusters * self.dim
        odds = np.concatenate([onp.zeros(1), flat[cut:]])
        return flat[:cut].reshape(self.n_clusters, self.dim), odds - _log_sum(odds)

    def scores(self, flat, positions):
        """(log joint densities (n_genes, K), pulls A_g (x_g - mu_k) (n_genes, K, d)); differentiable."""
        centroids, log_shares = self.unpack(flat)
        away = positions.centre[:, None, :] - centroids
        pulls = np.matmul(away, positions.precision)
        return log_shares - 0.5 * np.sum(pulls * away, axis=2), pulls

    def memberships(self, flat, positions):
        """Posterior probabilities of the clusters, (n_genes, K)."""
        scores = self.scores(flat, positions)[0]
        return np.exp(scores - _log_sum(scores))

    def objective(self, flat, positions):
        """F, a float."""
        centroids, log_shares = self.unpack(flat)
        prior = 0.5 * self.centroid_precision * np.sum(centroids**2)
        prior = prior - (self.concentration - 1.0) * np.sum(log_shares)
        return prior - np.sum(_log_sum(self.scores(flat, positions)[0]))

    def gradient(self, flat, positions):
        """dF / d(parameters), (K d + K - 1,); differentiable."""
        centroids, log_shares = self.unpack(flat)
        scores, pulls = self.scores(flat, positions)
        members = np.exp(scores - _log_sum(scores))
        by_centroid = self.centroid_precision * centroids - np.sum(
            members[:, :, None] * pulls, axis=0
        )
        counts = np.sum(members, axis=0) + self.concentration - 1.0
        by_share = np.sum(counts) * np.exp(log_shares) - counts
        return np.concatenate([by_centroid.ravel(), by_share[1:]])

    def hessian(self, flat, positions):
        """d2F / d(parameters)2: Louis' formula, expected curvature minus the covariance of the scores."""
        scores, pulls = self.scores(flat, positions)
        members = onp.exp(scores - _log_sum(scores))
        k, d, cut = self.n_clusters, self.dim, self.n_clusters * self.dim
        pulled = members[:, :, None] * pulls
        wide = onp.column_stack([pulled.reshape(len(members), cut), members])
        full = wide.T @ wide
        own = (members.T @ positions.precision.reshape(-1, d * d)).reshape(k, d, d)
        own = (
            own
            - pulled.transpose(1, 2, 0) @ pulls.swapaxes(0, 1)
            + self.centroid_precision * onp.eye(d)
        )
        centroid, share = onp.arange(cut).reshape(k, d), cut + onp.arange(k)
        full[centroid[:, :, None], centroid[:, None, :]] += own
        full[centroid, share[:, None]] -= pulled.sum(axis=0)
        full[share[:, None], centroid] -= pulled.sum(axis=0)
        full[cut:, cut:] += self._by_shares(flat, members.sum(axis=0))
        kept = onp.delete(onp.arange(cut + k), cut)  # the first cluster's log odds are fixed
        return full[onp.ix_(kept, kept)]

    def _by_shares(self, flat, counts):
        """The complete data's curvature in the log odds, minus the memberships' own variance."""
        shares = onp.exp(self.unpack(flat)[1])
        total = counts.sum() + self.n_clusters * (self.concentration - 1.0)
        return total * (onp.diag(shares) - onp.outer(shares, shares)) - onp.diag(counts)

    def push(self, flat, regression, by_coefficients, by_cholesky):
        """How the gradient of F moves with every gene's regression, (n_directions, n_genes, K d + K - 1).

        The directions: by_coefficients (n_directions, n_genes, p) and by_cholesky (n_directions, n_genes, p, p).
        """
        positions, inverse = self.positions(regression), onp.linalg.inv(regression.cholesky)
        members, pulls = self.memberships(flat, positions), self.scores(flat, positions)[1]
        right = positions.precision @ self.transform @ inverse.swapaxes(1, 2)  # A T S L
        half = right @ inverse @ by_cholesky @ right.swapaxes(1, 2)
        turn, shift = half + half.swapaxes(2, 3), by_coefficients @ self.transform.T  # of A and x
        away = positions.centre[:, None, :] - self.unpack(flat)[0]
        turned = away @ turn
        by_score = -(pulls @ shift[..., None])[..., 0] - 0.5 * (turned * away).sum(axis=3)
        by_pull = turned + (shift[:, :, None, :] @ positions.precision)
        moved = members * (by_score - (members * by_score).sum(axis=2, keepdims=True))
        by_centroid = -moved[..., None] * pulls - members[..., None] * by_pull
        return onp.concatenate([by_centroid.reshape(*moved.shape[:2], -1), -moved[..., 1:]], axis=2)


def _log_sum(scores):
    """log sum exp over the last axis, which is kept; scipy's takes far longer for arrays of this size."""
    top = np.max(scores, axis=-1, keepdims=True)
    return top + np.log(np.sum(np.exp(scores - top), axis=-1, keepdims=True))
