"""Derivatives of a `LinearChainCRF` by sums over tag sequences; tested against autograd."""

from collections.abc import Sequence

import numpy as np

from ...derivatives import Derivatives, at
from ...folds import Folds
from ...folds import weights as fold_weights
from ...parallel import in_blas_threads
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from .chains import portions
from .terms import SentenceTerms, TokenTerms

TOGETHER = 64  # sites of folds whose own terms one thread takes at a time


class CRFDerivatives(Derivatives):
    """Folds at one point share all sentences, and lose their own terms."""

    hessians_first = True
    chord_rate = 0.5  # a Hessian costs as much as thirty gradients

    def __init__(self, model):
        super().__init__(model)
        kind = TokenTerms if model.scheme else SentenceTerms
        self._terms = kind(model.scores, model.tags, model.starts)

    # one weighting

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams)."""
        return self._at(params, np.asarray(weights, float))

    def _at(self, params, weights, threads=True):
        value, gradient = self._terms.value_and_gradient(params, weights, threads)
        penalty = 0.5 * self.model.ridge * (params @ params)
        return float(value + penalty), gradient + self.model.ridge * params

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """d2F/dparams2 (D, D)."""
        matrix = self._terms.hessian(params, np.asarray(weights, float))
        return DenseHessian(matrix + self.model.ridge * np.eye(len(params)))

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """J (w_o - 1) of each fold, (n_folds, D)."""
        slopes = self._in_parts(lambda rows: self._terms.slopes(params, folds[rows]), folds)
        return -np.concatenate(slopes)

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold; at one point, of all sentences less the fold's own."""
        if params.ndim == 2 or len(folds) == 1:
            return self._each_at_its_own(np.atleast_2d(params), folds)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        parts = self._in_parts(lambda rows: self._terms.own(params, folds[rows]), folds)
        own_values, own_gradients = (np.concatenate(part) for part in zip(*parts, strict=True))
        return value - own_values, gradient - own_gradients

    def _each_at_its_own(self, params, folds):
        threads = len(folds) == 1  # of several folds, these are shared out rather than sentences

        def at_fold(pair):
            return self._at(pair[0], fold_weights(self.n_sites, pair[1]), threads)

        pairs = in_blas_threads(at_fold, list(zip(params, folds, strict=True)), "gradients")
        values, gradients = zip(*pairs, strict=True)
        return np.array(values), np.array(gradients)

    @override
    def fold_hessians(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """H(w_o) + damping I of each fold; at one point, H less that of the fold's own terms."""
        if params.ndim == 2 or len(folds) == 1:
            return super().fold_hessians(params, folds, damping, whole)
        whole = self.hessian(params, np.ones(self.n_sites)) if whole is None else whole
        own = self._in_parts(lambda rows: self._terms.own_hessians(params, folds[rows]), folds)
        return DenseFolds(np.asarray(whole.damped(damping)) - np.concatenate(own))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(z | x, what is known outside the fold) of the scored sites of each fold."""
        parts = self._in_parts(
            lambda rows: self._terms.heldout(at(params, rows), folds[rows]), folds
        )
        losses = np.split(np.concatenate(parts), np.cumsum(folds.sizes)[:-1])
        return folds.pick(losses)

    def _in_parts(self, function, folds):
        """[function(slice of folds)] of all folds."""
        return in_blas_threads(function, portions(folds.sizes, TOGETHER))
