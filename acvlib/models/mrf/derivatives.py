"""Closed forms of a `HiddenMRF`; each is tested against autograd.

F is minus the logarithm of a sum over states, in which the weighted log joint of site t in state k
has the derivatives s_t (x_t - e_t rate_k) and -s_t e_t rate_k in log rate k: s_t the weight of a
count, its sample weight included, e_t the exposure.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import delayed

from ...derivatives import Derivatives
from ...folds import Folds
from ...folds import weights as fold_weights
from ...inference.graph import expansion
from ...parallel import threads, track
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable


class MRFDerivatives(Derivatives):
    """Derivatives of one HiddenMRF. Folds run in threads; those at one point share its sums.

    Where all folds are at one point, each sums out anew only what its sites touch, which is 2.5
    times faster; gradients and Hessians are found together, as Newton's method asks for both.
    """

    hessians_first = True
    chord_rate = 0.5
    fresh = 1.0  # spares every other fold a Hessian, which costs two gradients

    def __init__(self, model: Any):
        super().__init__(model)
        self._kept = (None, None, None)

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams (K,))."""
        values = self._expanded(params, weights, second=False).values
        return -float(values[0]), -values[1:]

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        """d2F/dparams2 (K, K)."""
        return DenseHessian(self._matrices(self._expanded(params, weights).values))

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """(F (n_folds,), dF/dparams (n_folds, K))."""
        found = self._of_folds(params, folds, second=False)
        return -found[:, 0], -found[:, 1 : 1 + self.model.n_states]

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        """H(w_o) + damping I of each fold."""
        matrices = self._matrices(self._of_folds(params, folds))
        return DenseFolds(matrices + damping * np.eye(self.model.n_states))

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(x_t | x outside the fold) of the scored sites of each fold."""
        return folds.pick(self._each(self._fold_heldout, params, folds, "held-out losses"))

    def _each(self, function, params, folds, label):
        points = np.broadcast_to(params, (len(folds), params.shape[-1]))
        jobs = track(list(zip(points, folds, strict=True)), label)
        return threads()(delayed(function)(point, fold) for point, fold in jobs)

    def _of_folds(self, params, folds, second=True):
        """-F and its derivatives, a row a fold.

        Of folds at one point all, and kept: gradients and Hessians are asked for one at a time.
        """
        near = None
        if params.ndim == 1:
            known_folds, known_params, known = self._kept
            if known_folds is folds and np.array_equal(known_params, params):
                return known
            second = True
            near = self._expanded(params, np.ones(self.n_sites))

        def values(point: np.ndarray, fold: np.ndarray):
            return self._expanded(point, fold_weights(self.n_sites, fold), second, near).values

        rows = np.array(self._each(values, params, folds, "derivatives"))
        if params.ndim == 1:
            self._kept = (folds, np.array(params), rows)
        return rows

    def _expanded(self, params, weights, second=True, near=None):
        model = self.model
        node, edge, kept = model.weighted_potentials(params, weights)
        expected = np.outer(kept * model.exposure, np.exp(params))
        rows, columns = np.tril_indices(len(params) if second else 0)
        each = np.eye(len(params))[:, None, :]
        slopes = each * ((kept * model.counts)[:, None] - expected)
        bends = each[rows] * (rows == columns)[:, None, None] * -expected
        return expansion(node, edge, slopes, bends, model.elimination, near)

    def _matrices(self, values):
        """d2F/dparams2 (..., K, K) of `values`, whose last entries are its lower triangle."""
        k = self.model.n_states
        row, column = np.indices((k, k))
        high = np.maximum(row, column)
        return -values[..., 1 + k + high * (high + 1) // 2 + np.minimum(row, column)]
