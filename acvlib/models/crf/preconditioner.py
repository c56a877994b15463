"""An approximate inverse of the Hessian of a `FeatureCRF`, for conjugate gradients.

    H = ridge + sum_n Cov(features of sentence n),    P = B + U' U

Once a model is fitted, most tokens are all but certain, and few directions of each sentence are
not: between two sequences of labels that compete, there is one. U has the largest of all. Of the
others, B keeps products of frequent weights, and the squares alone of rare ones, which few
sentences share. Solving then takes tens of products with H in place of hundreds.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, diags_array, vstack

from ...inference.tangent import STEP, stepped
from .paths import joined
from .tokens import starts_of

UNCERTAIN = 1e-3  # P (1 - P) of a tag, from which on it is looked at
SETTLED = 0.1  # sum of these over tags, per token, above which all tokens are uncertain
MOST = 1000  # directions in U
FREQUENT = 500  # weights whose products B has
SMALL = 1e-4  # entries of a direction that are left out


class Preconditioner:
    """P^-1 at some `Paths` of all sentences of a model."""

    def __init__(self, model, paths):
        gamma = paths.smoothed.gamma
        variance = gamma * (1.0 - gamma)
        own = model.sentence_weights
        self.diagonal = paths.variances(own)[model.free] + model.ridge
        self.directions = None
        unsettled = variance.sum() > SETTLED * len(variance)
        if unsettled or not (variance > UNCERTAIN).any() or paths.smoothed.pairs is not None:
            return
        every = _directions(model, paths, variance)
        self.directions = every[:MOST]
        others = own[paths.tokens.sentence_of][:, None] * variance
        certain = paths.tokens.squared @ np.where(variance > UNCERTAIN, 0.0, others)
        squares = every[MOST:].power(2).sum(axis=0)
        none = np.zeros_like(paths.smoothed.transition)
        self.diagonal = model.ridge + squares + joined(certain, none)[model.free]
        self.frequent = np.sort(np.argsort(self.diagonal)[-FREQUENT:])
        self.block = cho_factor(self._block(every[MOST:]))
        self.factor = cho_factor(np.eye(self.directions.shape[0]) + self._met())

    def _block(self, others):
        """B of the frequent weights."""
        few = others[:, self.frequent].toarray()
        block = few.T @ few
        np.fill_diagonal(block, self.diagonal[self.frequent])
        return block

    def _met(self):
        """U B^-1 U'."""
        rare = 1.0 / self.diagonal
        rare[self.frequent] = 0.0
        few = self.directions[:, self.frequent].toarray()
        of_rare = (self.directions @ diags_array(rare)) @ self.directions.T
        return of_rare.toarray() + few @ cho_solve(self.block, few.T)

    def solve(self, vectors):
        """P^-1 times each row of vectors."""
        if self.directions is None:
            return vectors / self.diagonal
        first = self._solve_base(vectors)
        met = cho_solve(self.factor, self.directions @ first.T)
        return first - self._solve_base((self.directions.T @ met).T)

    def _solve_base(self, vectors):
        """B^-1 times each row of vectors."""
        out = vectors / self.diagonal
        out[:, self.frequent] = cho_solve(self.block, vectors[:, self.frequent].T).T
        return out


def _directions(model, paths, variance):
    """All directions (n, D) of all sentences, sparse, the largest first."""
    tokens = paths.tokens
    K = variance.shape[1]
    rows, tags = np.nonzero(variance > UNCERTAIN)
    bounds = np.searchsorted(rows, tokens.starts)
    sizes = []
    found = []
    for n in np.flatnonzero(np.diff(bounds)):
        own = slice(bounds[n], bounds[n + 1])
        begin, end = tokens.starts[n : n + 2]
        posterior = tuple(part[begin:end] for part in paths.smoothed[1:4])
        units = K * (rows[own] - begin) + tags[own]
        columns = _responses((*posterior, paths.smoothed.transition), units)
        for size, direction in _leading(model.sentence_weights[n] * columns, units):
            sizes.append(size)
            found.append((begin, direction))
    return _as_params(model, tokens, [found[i] for i in np.argsort(sizes)[::-1]], K)


def _responses(posterior, units):
    """How one sentence's posteriors move with the scores of some of its tokens' tags.

    (n_units, T K + K^2): covariances of a tag's presence with all features.
    """
    n = len(units)
    length, K = posterior[0].shape
    copies = [np.tile(part, (n, 1)) for part in posterior[:3]]
    field = np.zeros((n, length * K))
    field[np.arange(n), units] = 1.0
    starts = length * np.arange(n + 1)
    still = np.zeros((K, K))
    found = stepped((*copies, posterior[3]), starts, field.reshape(-1, K), still)
    gamma, filtered, ahead = (part.reshape(n, length, K) for part in found[:3])
    moves = found[3] * (filtered[:, :-1].transpose(0, 2, 1) @ ahead[:, 1:])
    return np.hstack([gamma.reshape(n, -1), moves.reshape(n, -1)]).imag / STEP


def _leading(columns, units):
    """(size, direction) of the covariance with these columns, by eigenvectors at its units."""
    values, vectors = np.linalg.eigh(columns[:, units])
    keep = values > UNCERTAIN
    return zip(values[keep], (vectors[:, keep] / np.sqrt(values[keep])).T @ columns, strict=True)


def _as_params(model, tokens, found, K):
    """Directions in tags and links, each from a first token on, as rows of params, sparse."""
    n_cells = K * len(tokens)
    cells = []
    values = []
    for begin, direction in found:
        places = np.flatnonzero(abs(direction) > SMALL)
        of_links = places - (len(direction) - K * K)
        cells.append(np.where(of_links < 0, K * begin + places, n_cells + of_links))
        values.append(direction[places])
    ends = starts_of([len(own) for own in cells])
    entries = (np.concatenate(values), np.concatenate(cells), ends)
    directions = csr_array(entries, (len(found), n_cells + K * K))
    used = np.unique(directions.indices)
    token, tag = np.divmod(used[used < n_cells], K)
    own = tokens.matrix[token]
    n_pairs = model.n_pairs
    pairs = own.indices * np.int64(K) + np.repeat(tag, np.diff(own.indptr))
    of_tokens = csr_array((own.data, pairs, own.indptr), (len(token), n_pairs))
    links = used[len(token) :] - n_cells + n_pairs - K * K
    entries = (np.ones(len(links)), links, np.arange(len(links) + 1))
    of_links = csr_array(entries, (len(links), n_pairs))
    return directions[:, used] @ vstack([of_tokens, of_links], "csr")[:, model.free]
