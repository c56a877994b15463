"""Derivatives of a `LinearChainCRF`, Hessians included, which cost as much as thirty gradients."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...folds import Folds
from ...inference.smoothing import factors
from ...model import override
from ...parallel import in_blas_threads
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check
from .blocks import block_sums, side_by_side
from .derivatives import TaggingDerivatives
from .moments import covariances
from .paths import Paths
from .tokens import portions

PIECE = 4000  # tokens that one thread takes at a time: their messages stay in its cache
SPREAD = 300.0  # nats between scores of a token, or params of a kind: products of two stay in range


class CRFParams(NamedTuple):
    """start (K,), transitions (K, K) from row to column, end (K,): log-potentials."""

    start: np.ndarray
    transitions: np.ndarray
    end: np.ndarray


def split(params: np.ndarray, n_tags: int) -> CRFParams:
    """Name the parts of params (2 K + K^2,)."""
    start = params[:n_tags]
    transitions = params[n_tags:-n_tags].reshape(n_tags, n_tags)
    end = params[-n_tags:]
    return CRFParams(start, transitions, end)


class ChainDerivatives(TaggingDerivatives):
    """With folds' own terms many at a time, and sums over all sentences side by side."""

    hessians_first = True
    chord_rate = 0.5

    _together = 64

    def __init__(self, model):
        super().__init__(model)
        tokens = model.tokens
        self._density = factors(tokens.offset)
        self._features = label_features(tokens)
        emitted = tokens.offset[np.arange(len(tokens)), tokens.tags]
        without_params = self._density.log_scale - emitted
        self._level = np.add.reduceat(without_params, tokens.starts[:-1])

    @cached_property
    def _blocks(self):
        return side_by_side(self._density.scaled, self.model.tokens.starts)

    def _whole(self, params, coefficients, run=in_blas_threads):
        parts = split(params, self.model.n_tags)
        if max(np.ptp(part) for part in parts) > SPREAD:
            return super()._whole(params, coefficients)
        tops = [part.max() for part in parts]
        potentials = [np.exp(part - top) for part, top in zip(parts, tops, strict=True)]
        log_z, expected = block_sums(self._blocks, coefficients, potentials, run)
        n_links = self.model.tokens.lengths - 1
        level = self._level + tops[0] + n_links * tops[1] + tops[2]
        observed = coefficients @ self._features
        value = log_z + coefficients @ level - observed @ params
        return value, expected - observed

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """Indefinite where what is hidden is more uncertain than everything."""
        check(weights, self.n_sites)
        matrix = np.diag(np.broadcast_to(self.model.ridge, len(params)))
        own = self.model.sentence_weights
        if not self.model.scheme:
            return DenseHessian(matrix + self._covariance(params, weights * own))
        matrix = matrix + self._covariance(params, own)
        omitted = np.flatnonzero(weights != 1.0)
        if omitted.size:
            matrix -= self._own_covariances(params, Folds([omitted]), weights[omitted])[0]
        return DenseHessian(matrix)

    def _covariance(self, params, coefficients):
        """sum_n coefficients_n Cov(features), (D, D): the Hessian of as many log Z_n."""
        tokens = self.model.tokens
        parts = self.model._parts(params)

        def of_piece(rows):
            paths = Paths(tokens.part(rows.start, rows.stop), parts)
            everything = np.array([0, rows.stop - rows.start])
            return covariances(paths, coefficients[rows], everything)[0]

        return sum(in_blas_threads(of_piece, portions(tokens.lengths, PIECE)))

    def _own_covariances(self, params, folds, weights=0.0):
        """sum_n s_n Cov(features) over the sentences that each fold touches, (n_folds, D, D)."""
        touched = self.model._touched(folds, weights)
        own = self.model.sentence_weights[touched.sentence]
        return covariances(self._paths(params, touched), own, touched.bounds)

    @override
    def fold_hessians(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """At one point, H less that of the fold's own terms."""
        if params.ndim == 2 or len(folds) == 1:
            return super().fold_hessians(params, folds, damping, whole)
        whole = self.hessian(params, np.ones(self.n_sites)) if whole is None else whole
        own = self._by_portions(lambda rows: self._own_covariances(params, folds[rows]), folds)
        return DenseFolds(np.asarray(whole.damped(damping)) - np.concatenate(own))


def label_features(tokens):
    """Count first tag, transitions and last tag of each labelled sentence, (N, D), sparse."""
    tags = tokens.tags
    k = tokens.n_labels
    every = np.arange(len(tokens.lengths))
    first = tags[tokens.starts[:-1]]
    last = tags[tokens.starts[1:] - 1]
    before, after = tokens.moves
    rows = np.concatenate([every, tokens.sentence_of[tokens.links], every])
    columns = np.concatenate([first, k + k * before + after, k + k**2 + last])
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(every), 2 * k + k**2))
