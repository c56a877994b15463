"""Derivatives of chain CRFs by sums over label sequences; tested against enumeration.

F(theta, w_o) = F(theta, 1) - own(theta, o), a sum over the sentences n that the fold touches:

    own = sum_n s_n (log sum exp(scores of all that agrees with the known) - score of the labels)

With sentences as sites F is linear in their weights, and own is s_n (-log p(z_n | x_n)). With
labels of tokens as sites, known with weight 1 and summed out with weight 0, F is that of all
sentences, and own is -log p(hidden labels | x, all others).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from ...derivatives import Derivatives
from ...folds import Folds
from ...inference.smoothing import factors
from ...parallel import in_blas_threads, pieces
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check, hide_labels
from .tokens import Paths, Tokens, portions, starts_of

PIECE = 4000  # tokens that one thread takes at a time: their messages stay in its cache
LANES = 64  # sentences of one length side by side: their messages stay in the cache
GROUPS = 8  # of blocks, for threads: fixed, so that results do not depend on their number
SPREAD = 300.0  # nats between scores of a token, or params of a kind: products of two stay in range


class TaggingDerivatives(Derivatives):
    """Of any `Tagging`, but for Hessians and fast sums, which are those of `LinearChainCRF`."""

    hessians_first = True
    chord_rate = 0.5

    _together = 64  # sites of folds whose own terms one thread takes at a time

    def value_and_gradient(self, params: np.ndarray, weights: np.ndarray):
        pull = self.model.ridge * params
        coefficients, hidden = self._weighted(weights)
        value, gradient = self._whole(params, coefficients)
        if hidden:
            own, gradients = self._own_sums(params, *hidden)
            value -= own[0]
            gradient = gradient - gradients[0]
        return float(value + 0.5 * params @ pull), gradient + pull

    def _weighted(self, weights):
        """(the weight in F of each sentence as a whole, (folds, their weights) that come off)."""
        check(weights, self.n_sites)
        s = self.model.sample_weight
        if not self.model.scheme:
            return s * weights, ()
        omitted = np.flatnonzero(weights != 1.0)
        return s, (Folds([omitted]), weights[omitted]) if omitted.size else ()

    @cached_property
    def _blocks(self):
        return Blocks(self.model.tokens, self.model.free)

    def _whole(self, params, coefficients):
        """sum_n coefficients_n (-log p(z_n | x_n)) and its gradient (D,)."""
        parts = self.model.unpack(params)
        if max(np.ptp(part) for part in parts) > SPREAD:
            return self._one_by_one(params, coefficients)
        return self._blocks.sums(*parts, coefficients)

    def _one_by_one(self, params, coefficients):
        paths = self._paths(params, self.model.tokens)
        return coefficients @ paths.values, paths.gradient(coefficients)[self.model.free]

    def _paths(self, params, tokens):
        return Paths(tokens, self.model._parts(params))

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """Indefinite where what is hidden is more uncertain than everything."""
        coefficients, hidden = self._weighted(weights)

        def of_piece(rows: Any):
            sentences = np.arange(rows.start, rows.stop)
            paths = self._paths(params, self.model.tokens.take(sentences))
            return paths.covariances(coefficients[rows], np.array([0, len(sentences)]))[0]

        matrix = sum(in_blas_threads(of_piece, portions(self.model.tokens.lengths, PIECE)))
        matrix += np.diag(np.broadcast_to(self.model.ridge, len(params)))
        return DenseHessian(
            matrix - self._own_covariances(params, *hidden)[0] if hidden else matrix
        )

    # folds

    def _touched(self, folds, known=0.0):
        """The sentences that folds touch, and their weights (N,); omitted labels weigh `known`.

        Then the bounds of the folds: of fold o those are bounds[o] ... bounds[o + 1] - 1; and the
        rows of the omitted sites.
        """
        tokens = self.model.tokens
        omitted = folds.omitted.sites
        if not self.model.scheme:
            s = self.model.sample_weight[omitted]
            return tokens.take(omitted), s, starts_of(folds.sizes), None
        n_sentences = len(tokens.lengths)
        first = n_sentences * np.repeat(np.arange(len(folds)), folds.sizes)
        pairs, place = np.unique(first + tokens.sentence_of[omitted], return_inverse=True)
        fold, sentence = np.divmod(pairs, n_sentences)
        touched = tokens.take(sentence)
        rows = touched.starts[place] + omitted - tokens.starts[sentence[place]]
        label = np.ones(len(touched))
        label[rows] = known
        with np.errstate(divide="ignore"):
            touched.offset += np.log(hide_labels(label, touched.tags, tokens.n_labels))
        bounds = np.searchsorted(fold, np.arange(len(folds) + 1))
        return touched, self.model.sample_weight[sentence], bounds, rows

    def _by_portions(self, function: Callable, folds: Folds) -> np.ndarray:
        """function(rows) of slices of all folds, on threads, put together."""
        return np.concatenate(in_blas_threads(function, portions(folds.sizes, self._together)))

    def _own_sums(self, params, folds, known=0.0):
        """(own (n_folds,), its gradients (n_folds, D)) at params (D,)."""

        def of_portion(rows: Any):
            tokens, s, bounds, _ = self._touched(folds[rows], known)
            paths = self._paths(params, tokens)
            values = np.add.reduceat(s * paths.values, bounds[:-1])
            return np.column_stack([values, paths.gradients(s, bounds)[:, self.model.free]])

        every = self._by_portions(of_portion, folds)
        return every[:, 0], every[:, 1:]

    def _own_covariances(self, params, folds, known=0.0):
        """sum_n s_n Cov(features) over the sentences that each fold touches, (n_folds, D, D)."""
        tokens, s, bounds, _ = self._touched(folds, known)
        return self._paths(params, tokens).covariances(s, bounds)

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[Any, np.ndarray]:
        """At one point, those of all sentences less the fold's own terms."""
        if params.ndim == 2 or len(folds) == 1:
            return super().fold_gradients(params, folds, values)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own_values, own_gradients = self._own_sums(params, folds)
        return value - own_values, gradient - own_gradients

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        """At one point, H less that of the fold's own terms."""
        if params.ndim == 2 or len(folds) == 1:
            return super().fold_hessians(params, folds, damping, whole)
        whole = self.hessian(params, np.ones(self.n_sites)) if whole is None else whole
        own = self._by_portions(lambda rows: self._own_covariances(params, folds[rows]), folds)
        return DenseFolds(np.asarray(whole.damped(damping)) - own)

    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """Minus the gradient of own; a label's part is d(-log p) / p, p its probability."""
        if not self.model.scheme:
            return -self._own_sums(params, folds)[1]

        def of_portion(rows: Any):
            part = folds[rows]
            tokens, s, _, _ = self._touched(Folds(part.omitted.sites[:, None]))
            paths = self._paths(params, tokens)
            coefficients = s * np.exp(paths.values)
            return paths.gradients(coefficients, starts_of(part.sizes))[:, self.model.free]

        return -self._by_portions(of_portion, folds)

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if self.model.scheme and (weights != 1.0).any():
            raise ValueError("the J of hidden labels is had at weights 1, where all are known")
        return -self.cross(params, Folds(np.arange(self.n_sites)[:, None])).T

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(z_n | x_n), or -log p(z_t | x, labels outside the fold)."""
        if params.ndim == 2:
            return super().heldout(params, folds)

        def of_portion(rows: Any):
            tokens, _, _, sites = self._touched(folds[rows])
            paths = self._paths(params, tokens)
            if sites is None:
                return paths.values
            with np.errstate(divide="ignore"):  # below 1e-308 a probability is 0, its loss infinite
                return -np.log(paths.smoothed.gamma[sites, tokens.tags[sites]])

        losses = self._by_portions(of_portion, folds)
        return folds.pick(np.split(losses, np.cumsum(folds.sizes)[:-1]))

    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        return self.model.ridge * params


class Blocks:
    """Sums over all sentences of a chain, with start (K,), transitions (K, K) and end (K,).

    Sentences of one length lie side by side: a step from token to token is then one product of
    matrices (K, K) (K, lanes). Of 15,000 or 200,000 tokens with 9 tags a gradient takes a third of
    its time by `inference.smoothing`, which goes sentence by sentence.

    free (D,): where these stand among the pairs of `Tokens.observed`.
    A block is (sentences, their emission factors (T, K, lanes)).
    """

    def __init__(self, tokens: Tokens, free: np.ndarray):
        density = factors(tokens.offset)
        emitted = tokens.offset[np.arange(len(tokens)), tokens.tags]
        self.level = np.add.reduceat(density.log_scale - emitted, tokens.starts[:-1])
        self.n_moves = tokens.lengths - 1
        self.observed = tokens.observed[:, free]
        self.blocks = []
        for length in np.unique(tokens.lengths):
            alike = np.flatnonzero(tokens.lengths == length)
            for lanes in pieces(len(alike), LANES):
                rows = tokens.starts[alike[lanes]] + np.arange(length)[:, None]
                scaled = np.ascontiguousarray(density.scaled[rows].swapaxes(1, 2))
                self.blocks.append((alike[lanes], scaled))

    def sums(
        self, start: np.ndarray, transitions: np.ndarray, end: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(sum_n weights_n (-log p(z_n | x_n)), its gradient (D,))."""
        parts = start, transitions, end
        tops = [part.max() for part in parts]
        potentials = [np.exp(part - top) for part, top in zip(parts, tops, strict=True)]

        def of_group(first: int):
            blocks = self.blocks[first::GROUPS]
            return sum(_sums(scaled, weights[rows], *potentials) for rows, scaled in blocks)

        total = sum(in_blas_threads(of_group, range(min(GROUPS, len(self.blocks)))))
        params = np.concatenate([np.ravel(part) for part in parts])
        level = self.level + tops[0] + self.n_moves * tops[1] + tops[2] - self.observed @ params
        return total[0] + weights @ level, total[1:] - weights @ self.observed


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def _sums(factors, weights, start, transition, end):
    """Log Z and expected features of a block in one vector (1 + D,).

    Loops stand where NumPy would broadcast: they compile in a quarter of the time.
    """
    n_places, n_tags, lanes = factors.shape
    into = transition.T.copy()
    alpha = np.empty(factors.shape)  # of columns with sum 1
    norm = np.zeros((n_places, lanes))
    log_z = 0.0
    for t in range(n_places):
        now = alpha[t]
        if t > 0:
            np.dot(into, alpha[t - 1], now)
        for j in range(n_tags):
            for lane in range(lanes):
                before = now[j, lane] if t > 0 else start[j]
                now[j, lane] = before * factors[t, j, lane]
                norm[t, lane] += now[j, lane]
        for lane in range(lanes):
            log_z += weights[lane] * np.log(norm[t, lane])
        for j in range(n_tags):
            for lane in range(lanes):
                now[j, lane] /= norm[t, lane]
    beta = np.empty((n_tags, lanes))
    mass = np.dot(end, alpha[-1])
    for lane in range(lanes):
        log_z += weights[lane] * np.log(mass[lane])
        for j in range(n_tags):
            beta[j, lane] = end[j] * weights[lane] / mass[lane]
    out = np.zeros(1 + 2 * n_tags + n_tags * n_tags)
    out[0] = log_z
    links = np.zeros((n_tags, n_tags))
    product = np.empty((n_tags, n_tags))
    onward = np.empty((n_tags, lanes))
    for j in range(n_tags):
        out[len(out) - n_tags + j] = np.dot(alpha[-1, j], beta[j])
    for t in range(n_places - 1, 0, -1):
        for j in range(n_tags):
            for lane in range(lanes):
                beta[j, lane] *= factors[t, j, lane] / norm[t, lane]
        np.dot(alpha[t - 1], beta.T, product)
        for i in range(n_tags):
            for j in range(n_tags):
                links[i, j] += product[i, j]
        np.dot(transition, beta, onward)
        beta, onward = onward, beta
    for i in range(n_tags):
        out[1 + i] = np.dot(alpha[0, i], beta[i])
        for j in range(n_tags):
            out[1 + n_tags + i * n_tags + j] = links[i, j] * transition[i, j]
    return out
