"""Stage one of the genomics model: a regression for each gene on one basis X, as a Gaussian approximation.

For one gene, with weights w on times and R replicates a time, the estimate minimises
    KL = tau / 2 [sum_tr w_t (y_tr - x_t beta)^2 + tr(G S)] - R sum_t w_t log(tau) / 2 - log det(S) / 2,
G = R X' diag(w) X, over beta (p,), the precision tau of an observation and the covariance S of beta. Its solution is
weighted least squares, tau = (R sum_t w_t - p) / RSS, S = (tau G)^-1. Coordinates of a gene, q = p + p (p + 1) / 2 + 1:
beta, then L row by row with log diagonal, where S^-1 = L L', then log tau. Source: Giordano et al. (2019), Appendix B.
"""

from typing import NamedTuple

import autograd.numpy as np
import numpy as onp


class Regression(NamedTuple):
    """coefficients (n_genes, p), cholesky (n_genes, p, p) of the coefficients' precision, precision (n_genes,)."""

    coefficients: onp.ndarray
    cholesky: onp.ndarray
    precision: onp.ndarray


class GeneRegression:
    """Closed forms of stage one: means (n_genes, n_times) of the replicates, scatter: their squares about them."""

    def __init__(self, basis, means, scatter, n_replicates):
        self.basis, self.means, self.scatter, self.n_replicates = (
            basis,
            means,
            scatter,
            n_replicates,
        )
        self.n_basis = p = basis.shape[1]
        self.rows, self.columns = onp.tril_indices(p)
        self.diagonal = self.rows == self.columns
        self.size = p + len(self.rows) + 1
        self.place = onp.zeros((len(self.rows), p * p))  # from the entries of L to all of it
        self.place[onp.arange(len(self.rows)), self.rows * p + self.columns] = 1.0

    def unpack(self, flat):
        """The `Regression` of coordinates (n_genes, q); differentiable."""
        p = self.n_basis
        entries = np.where(
            self.diagonal, np.exp(np.where(self.diagonal, flat[:, p:-1], 0.0)), flat[:, p:-1]
        )
        return Regression(
            flat[:, :p], np.dot(entries, self.place).reshape(-1, p, p), np.exp(flat[:, -1])
        )

    def pack(self, regression):
        """Coordinates (n_genes, q) of a `Regression`."""
        entries = regression.cholesky[:, self.rows, self.columns]
        entries[:, self.diagonal] = onp.log(entries[:, self.diagonal])
        return onp.column_stack([regression.coefficients, entries, onp.log(regression.precision)])

    def unpack_directions(self, flat, directions):
        """(d coefficients (k, n_genes, p), d cholesky (k, n_genes, p, p)) along directions (k, n_genes, q) at flat."""
        p, lower = self.n_basis, self.unpack(flat).cholesky
        scale = onp.where(self.diagonal, lower[:, self.rows, self.columns], 1.0)
        by_cholesky = (directions[..., p:-1] * scale) @ self.place
        return directions[..., :p], by_cholesky.reshape(*directions.shape[:2], p, p)

    def gram(self, weights):
        """G = R X' diag(w) X."""
        return self.n_replicates * np.dot(self.basis.T * weights, self.basis)

    def squares(self, coefficients, weights=None):
        """Sums of squared residuals by time (n_genes, n_times), or weighted and summed over times (n_genes,)."""
        by_time = (
            self.n_replicates * (self.means - np.dot(coefficients, self.basis.T)) ** 2
            + self.scatter
        )
        return by_time if weights is None else np.dot(by_time, weights)

    def solve(self, weights):
        """The `Regression` that minimises KL at weights (n_times,)."""
        gram = self.gram(weights)
        right = self.n_replicates * (self.means * weights) @ self.basis
        coefficients = onp.linalg.solve(gram, right.T).T
        dof = self.n_replicates * weights.sum() - self.n_basis
        precision = dof / self.squares(coefficients, weights)
        cholesky = onp.sqrt(precision)[:, None, None] * onp.linalg.cholesky(gram)
        return Regression(coefficients, cholesky, precision)

    def residual(self, flat, weights):
        """dKL / d(coordinates), (n_genes, q); differentiable."""
        beta, lower, tau = self.unpack(flat)
        inverse = np.linalg.inv(lower)
        spread = self._spread(inverse, weights)
        misfit = self.means - np.dot(beta, self.basis.T)
        by_beta = -self.n_replicates * tau[:, None] * np.dot(misfit * weights, self.basis)
        by_lower = (
            -tau[:, None]
            * np.matmul(np.swapaxes(inverse, 1, 2), spread)[:, self.rows, self.columns]
        )
        scale = np.where(self.diagonal, lower[:, self.rows, self.columns], 1.0)
        total = self.squares(beta, weights) + np.sum(spread * onp.eye(self.n_basis), axis=(1, 2))
        by_log_tau = 0.5 * (tau * total - self.n_replicates * np.sum(weights))
        return np.concatenate(
            [by_beta, by_lower * scale + self.diagonal, by_log_tau[:, None]], axis=1
        )

    def _spread(self, inverse, weights):
        """L^-1 G L^-T, whose trace is tr(G S); the identity over tau at the solution."""
        return np.matmul(np.matmul(inverse, self.gram(weights)), np.swapaxes(inverse, 1, 2))

    def hessian(self, flat, weights):
        """d2KL / d(coordinates)2 of every gene, (n_genes, q, q)."""
        p, residual = self.n_basis, self.residual(flat, weights)
        _, lower, tau = self.unpack(flat)
        inverse = onp.linalg.inv(lower)
        blocks = onp.zeros((len(flat), self.size, self.size))
        blocks[:, :p, :p] = tau[:, None, None] * self.gram(weights)
        blocks[:, p:-1, p:-1] = self._by_cholesky(lower, inverse, tau, weights)
        inside = (
            residual[:, p:-1] - self.diagonal
        )  # without the log determinant, KL is proportional to tau in these
        slots = p + onp.flatnonzero(self.diagonal)
        blocks[:, slots, slots] += inside[:, self.diagonal]
        blocks[:, -1, :p] = blocks[:, :p, -1] = residual[:, :p]
        blocks[:, -1, p:-1] = blocks[:, p:-1, -1] = inside
        blocks[:, -1, -1] = residual[:, -1] + 0.5 * self.n_replicates * weights.sum()
        return blocks

    def _by_cholesky(self, lower, inverse, tau, weights):
        """tau d2 tr(G S)/2 by pairs of entries of L, in coordinates with a log diagonal but for its curvature."""
        i, j, spread = self.rows, self.columns, self._spread(inverse, weights)
        covariance = inverse.swapaxes(1, 2) @ inverse
        turned = _pick(spread @ inverse, j, i).swapaxes(1, 2) * _pick(inverse, j, i)
        second = _pick(spread, j, j) * _pick(covariance, i, i) + turned + turned.swapaxes(1, 2)
        scale = onp.where(self.diagonal, lower[:, i, j], 1.0) * onp.sqrt(tau)[:, None]
        return second * scale[:, :, None] * scale[:, None, :]

    def cross(self, flat):
        """d2KL / d(coordinates) d(weights), (n_genes, q, n_times); the weights themselves do not enter."""
        beta, lower, tau = self.unpack(flat)
        inverse = onp.linalg.inv(lower)
        misfit, r = self.means - beta @ self.basis.T, self.n_replicates
        seen = inverse @ self.basis.T  # L^-1 x_t
        by_beta = -r * misfit[:, None, :] * self.basis.T
        by_lower = -r * (inverse.swapaxes(1, 2) @ seen)[:, self.rows] * seen[:, self.columns]
        scale = onp.where(self.diagonal, lower[:, self.rows, self.columns], 1.0)
        by_log_tau = 0.5 * (self.squares(beta) + r * (seen**2).sum(axis=1)) - 0.5 * r / tau[:, None]
        blocks = onp.concatenate(
            [by_beta, by_lower * scale[..., None], by_log_tau[:, None]], axis=1
        )
        return tau[:, None, None] * blocks


def _pick(matrices, rows, columns):
    """matrices[:, rows[a], columns[b]] at [:, a, b]."""
    flat = matrices.reshape(len(matrices), -1)
    return flat.take(rows[:, None] * matrices.shape[-1] + columns, axis=1)
