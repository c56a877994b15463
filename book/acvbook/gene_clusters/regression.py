"""Stage one of the genomics model: a regression for each gene on one basis X.

For one gene, with weights w on times and R replicates a time, the estimate minimises
    KL = tau / 2 [sum_tr w_t (y_tr - x_t beta)^2 + tr(G S)]
         - R sum_t w_t log(tau) / 2 - log det(S) / 2,    G = R X' diag(w) X,
over beta (p,), the precision tau of an observation and the covariance S of beta. Its solution is
weighted least squares, tau = (R sum_t w_t - p) / RSS, S = (tau G)^-1. Coordinates of a gene,
q = p + p (p + 1) / 2 + 1: beta, then L row by row with log diagonal, where S^-1 = L L', then
log tau. Source: Giordano et al. (2019), Appendix B.
"""

from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.interpolate import BSpline


class Regression(NamedTuple):
    """coefficients (n_genes, p); cholesky (n_genes, p, p): L; precision (n_genes,): tau."""

    coefficients: np.ndarray
    cholesky: np.ndarray
    precision: np.ndarray


class GeneRegression:
    """Closed forms for basis (n_times, p) and expression (n_genes, n_times, n_replicates)."""

    def __init__(self, basis: np.ndarray, expression: np.ndarray):
        self.basis = basis
        self.n_basis = basis.shape[1]
        self.n_replicates = expression.shape[2]
        self.means = expression.mean(axis=2)
        self.scatter = ((expression - self.means[..., None]) ** 2).sum(axis=2)
        self.rows, self.columns = np.tril_indices(self.n_basis)
        self.diagonal = self.rows == self.columns
        self.size = self.n_basis + len(self.rows) + 1
        # from the entries of L to all of it, flat
        self.place = np.eye(self.n_basis**2)[self.rows * self.n_basis + self.columns]

    def unpack(self, flat: np.ndarray) -> Regression:
        """The regressions of coordinates (n_genes, q); differentiable."""
        p = self.n_basis
        inside = flat[:, p:-1]
        positive = anp.exp(anp.where(self.diagonal, inside, 0.0))
        entries = anp.where(self.diagonal, positive, inside)
        cholesky = anp.dot(entries, self.place).reshape(-1, p, p)
        return Regression(flat[:, :p], cholesky, anp.exp(flat[:, -1]))

    def pack(self, regression: Regression) -> np.ndarray:
        """The coordinates (n_genes, q) of regressions."""
        entries = self._entries(regression.cholesky)
        logs = np.log(np.where(self.diagonal, entries, 1.0))
        entries = np.where(self.diagonal, logs, entries)
        return np.column_stack([regression.coefficients, entries, np.log(regression.precision)])

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """G = R X' diag(w) X."""
        return self.n_replicates * anp.dot(self.basis.T * weights, self.basis)

    def squares(self, coefficients: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weighted sums of squared residuals, (n_genes,)."""
        misfit = self.means - anp.dot(coefficients, self.basis.T)
        return anp.dot(self.n_replicates * misfit**2 + self.scatter, weights)

    def solve(self, weights: np.ndarray) -> Regression:
        """The regressions that minimise KL at weights (n_times,)."""
        gram = self.gram(weights)
        right = self.n_replicates * (self.means * weights) @ self.basis
        coefficients = np.linalg.solve(gram, right.T).T
        dof = self.n_replicates * weights.sum() - self.n_basis
        precision = dof / self.squares(coefficients, weights)
        cholesky = np.sqrt(precision)[:, None, None] * np.linalg.cholesky(gram)
        return Regression(coefficients, cholesky, precision)

    def residual(self, flat: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """dKL / d(coordinates), (n_genes, q), affine in the weights; differentiable."""
        beta, lower, tau = self.unpack(flat)
        inverse = anp.linalg.inv(lower)
        spread = self._spread(inverse, weights)
        misfit = self.means - anp.dot(beta, self.basis.T)
        by_beta = -self.n_replicates * tau[:, None] * anp.dot(misfit * weights, self.basis)
        pulled = self._entries(anp.matmul(anp.swapaxes(inverse, 1, 2), spread))
        by_lower = self.diagonal - tau[:, None] * pulled * self._scale(lower)
        trace = anp.sum(spread * np.eye(self.n_basis), axis=(1, 2))
        total = tau * (self.squares(beta, weights) + trace)
        by_log_tau = 0.5 * (total - self.n_replicates * anp.sum(weights))
        return anp.concatenate([by_beta, by_lower, by_log_tau[:, None]], axis=1)

    def hessian(self, flat: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """d2KL / d(coordinates)2 of every gene, (n_genes, q, q); a tenth of autograd's time."""
        p = self.n_basis
        _, lower, tau = self.unpack(flat)
        residual = self.residual(flat, weights)
        inside = residual[:, p:-1] - self.diagonal  # less the log determinant's: linear in tau
        blocks = np.zeros((len(flat), self.size, self.size))
        blocks[:, :p, :p] = tau[:, None, None] * self.gram(weights)
        blocks[:, p:-1, p:-1] = self._by_cholesky(lower, tau, weights)
        logs = p + np.flatnonzero(self.diagonal)
        blocks[:, logs, logs] += inside[:, self.diagonal]
        by_log_tau = np.column_stack([residual[:, :p], inside])
        blocks[:, -1, :-1] = by_log_tau
        blocks[:, :-1, -1] = by_log_tau
        blocks[:, -1, -1] = residual[:, -1] + 0.5 * self.n_replicates * weights.sum()
        return blocks

    def cross(self, flat: np.ndarray) -> np.ndarray:
        """d2KL / d(coordinates) d(weights), (n_genes, q, n_times), the same at all weights."""
        beta, lower, tau = self.unpack(flat)
        inverse = np.linalg.inv(lower)
        seen = inverse @ self.basis.T  # L^-1 x_t
        misfit = self.means - beta @ self.basis.T
        pulled = (inverse.swapaxes(1, 2) @ seen)[:, self.rows] * seen[:, self.columns]
        by_beta = -misfit[:, None] * self.basis.T
        by_lower = -pulled * self._scale(lower)[..., None]
        squares = misfit**2 + self.scatter / self.n_replicates + (seen**2).sum(axis=1)
        by_log_tau = 0.5 * (squares - 1.0 / tau[:, None])
        blocks = np.concatenate([by_beta, by_lower, by_log_tau[:, None]], axis=1)
        return self.n_replicates * tau[:, None, None] * blocks

    def _by_cholesky(self, lower, tau, weights):
        """tau d2 tr(G S)/2 by pairs of entries of L, but for the curvature of a log diagonal."""
        i = self.rows
        j = self.columns
        inverse = np.linalg.inv(lower)
        spread = self._spread(inverse, weights)
        covariance = inverse.swapaxes(1, 2) @ inverse
        turned = _pick(spread @ inverse, j, i).swapaxes(1, 2) * _pick(inverse, j, i)
        second = _pick(spread, j, j) * _pick(covariance, i, i) + turned + turned.swapaxes(1, 2)
        scale = self._scale(lower) * np.sqrt(tau)[:, None]
        return second * scale[:, :, None] * scale[:, None, :]

    def _entries(self, matrices):
        """The lower triangles of matrices (n_genes, p, p), row by row."""
        return matrices[:, self.rows, self.columns]

    def _scale(self, lower):
        """d(entries of L) / d(coordinates)."""
        return anp.where(self.diagonal, self._entries(lower), 1.0)

    def _spread(self, inverse, weights):
        """L^-1 G L^-T, whose trace is tr(G S); the identity over tau at the solution."""
        return anp.matmul(anp.matmul(inverse, self.gram(weights)), anp.swapaxes(inverse, 1, 2))


def _pick(matrices, rows, columns):
    """matrices[:, rows[a], columns[b]] at [:, a, b]."""
    flat = matrices.reshape(len(matrices), -1)
    return flat.take(rows[:, None] * matrices.shape[-1] + columns, axis=1)


DEGREE = 3


def spline_basis(hours: np.ndarray, df: int, n_levels: int = 3) -> np.ndarray:
    """B-splines of degree 3 in all but the last `n_levels` times, an indicator of each of those.

    hours (n_times,) ascending; df >= 4: the splines' degrees of freedom, intercept included; df - 4
    inner knots are equally spaced. Returns (n_times, df + n_levels), whose span holds the constant.
    Raises ValueError for too few times. Source: Giordano et al. (2019), Section 6.
    """
    hours = np.asarray(hours, float)
    early = hours[: len(hours) - n_levels]
    if df <= DEGREE or len(early) < df or not (np.diff(hours) > 0).all():
        raise ValueError(
            f"df = {df} needs to be at least {DEGREE + 1} and at most the number of early times, "
            f"{len(early)}, which must be distinct and ascending: lower df or n_levels"
        )
    basis = np.zeros((len(hours), df + n_levels))
    inner = np.linspace(early[0], early[-1], df - DEGREE + 1)
    knots = np.pad(inner, DEGREE, mode="edge")
    basis[: len(early), :df] = BSpline.design_matrix(early, knots, DEGREE).toarray()
    basis[len(early) :, df:] = np.eye(n_levels)
    return basis
