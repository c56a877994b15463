"""Derivatives of a `LinearChainCRF` by sums over tag sequences; tested against autograd.

F(theta, w_o) = F(theta, 1) - own(theta, o), a sum over the sentences that the fold touches:

    own = sum_n log sum exp(scores of all that agrees with what is known) - score of the labels
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from ...derivatives import Derivatives, at
from ...folds import Folds
from ...folds import weights as fold_weights
from ...inference.smoothing import factors
from ...parallel import in_blas_threads, in_threads
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from .chains import Chains, OwnChains, portions

TOGETHER = 64  # sites of folds whose own terms one thread takes at a time


class CRFDerivatives(Derivatives):
    """With sentences as sites: F is linear in their weights, and own is -log p(z_n | x_n)."""

    hessians_first = True
    chord_rate = 0.5  # a Hessian costs as much as thirty gradients

    def __init__(self, model):
        super().__init__(model)
        tags = model.tags
        emitted = model.scores[np.arange(len(tags)), tags]
        self._emitted = np.add.reduceat(emitted, model.starts[:-1])
        self._features = label_features(tags, model.starts, model.n_tags)
        self._chains = Chains(factors(model.scores), model.starts)

    # one weighting

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams)."""
        return self._value_and_gradient(params, weights, in_blas_threads)

    def _value_and_gradient(self, params, weights, run):
        value, gradient = self._likelihood(params, weights, run)
        ridge = self.model.ridge * params
        return float(value + 0.5 * ridge @ params), gradient + ridge

    def _likelihood(self, params, weights, run):
        """sum_n weights_n (-log p(z_n | x_n)) and its gradient (D,)."""
        kept = np.flatnonzero(weights)
        if 2 * len(kept) > len(weights):
            log_z, expected = self._chains.many_sums(params, weights, run)
        else:
            log_z, expected = self._chains.take(kept).sums(params, weights[kept])
        observed = weights @ self._features
        score = observed @ params + weights @ self._emitted
        return log_z - score, expected - observed

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """d2F/dparams2 (D, D)."""
        ridge = self.model.ridge * np.eye(len(params))
        return DenseHessian(self._curvature(params, weights) + ridge)

    def _curvature(self, params, weights):
        return self._chains.covariance(params, weights)

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """J (w_o - 1) of each fold, (n_folds, D)."""
        _, gradients = self._own_sums(params, folds)
        return -gradients

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold; at one point, of all sentences less the fold's own."""
        if params.ndim == 2 or len(folds) == 1:
            return self._each_at_its_own(np.atleast_2d(params), folds)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own_values, own_gradients = self._own_sums(params, folds)
        return value - own_values, gradient - own_gradients

    def _each_at_its_own(self, params, folds):
        """The same, a weighting for each fold; threads share folds, or the sentences of one."""
        run = in_blas_threads if len(folds) == 1 else partial(in_threads, n_threads=1)

        def at_fold(pair):
            point, fold = pair
            return self._value_and_gradient(point, fold_weights(self.n_sites, fold), run)

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

        def of_part(rows):
            own = self._own_chains(folds[rows])
            return own.chains.covariances(params, np.ones(len(own.chains)), own.bounds)

        whole = self.hessian(params, np.ones(self.n_sites)) if whole is None else whole
        matrices = _in_portions(of_part, folds)
        return DenseFolds(np.asarray(whole.damped(damping)) - np.concatenate(matrices))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(z | x, what is known outside the fold) of the scored sites of each fold."""

        def of_part(rows):
            return self._heldout(at(params, rows), self._own_chains(folds[rows]))

        losses = np.concatenate(_in_portions(of_part, folds))
        return folds.pick(np.split(losses, np.cumsum(folds.sizes)[:-1]))

    def _heldout(self, params, own):
        """-log p(z_n | x_n) of folds' sentences, end to end; params (D,) or (n_folds, D)."""
        log_z, _ = own.smooth(params)
        points = at(params, own.fold)
        scores = self._features[own.sentence].multiply(points).sum(axis=1)
        return log_z - scores - self._emitted[own.sentence]

    def _own_chains(self, folds):
        sentence = np.concatenate(list(folds))
        bounds = np.concatenate([[0], np.cumsum(folds.sizes)])
        return OwnChains(self._chains.take(sentence), sentence, bounds)

    def _own_sums(self, params, folds):
        """(own (n_folds,), its gradients (n_folds, D)) at params (D,)."""

        def of_part(rows):
            return self._sums_of(self._own_chains(folds[rows]), params)

        values, gradients = zip(*_in_portions(of_part, folds), strict=True)
        return np.concatenate(values), np.concatenate(gradients)

    def _sums_of(self, own, params):
        log_z, expected = own.chains.each(params)
        observed = own.sum(self._features[own.sentence]).toarray()
        values = own.sum(log_z - self._emitted[own.sentence]) - observed @ params
        return values, own.sum(expected) - observed


def _in_portions(function, folds):
    """[function(slice of folds)] of all folds."""
    return in_blas_threads(function, portions(folds.sizes, TOGETHER))


def label_features(tags: np.ndarray, starts: np.ndarray, n_tags: int) -> csr_array:
    """Count first tag, transitions and last tag of each labelled sentence, (N, D)."""
    links = n_tags + n_tags * np.roll(tags, 1) + tags
    links[starts[:-1]] = tags[starts[:-1]]  # no token before it: the first tag
    last = n_tags + n_tags**2 + tags[starts[1:] - 1]
    columns = np.insert(links, starts[1:], last)
    bounds = starts + np.arange(len(starts))
    shape = (len(starts) - 1, 2 * n_tags + n_tags**2)
    counts = csr_array((np.ones(len(columns)), columns, bounds), shape=shape)
    counts.sum_duplicates()
    return counts
