"""A sparse affinity for more points than pairs can be afforded of: near neighbours alone."""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix

from acvlib.models import GraphAffinity


def neighbour_affinity(
    points: np.ndarray, sigma: float, n_neighbours: int, rng: np.random.Generator, leaf: int = 1000
) -> GraphAffinity:
    """exp(-|x_i - x_j|^2 / (2 sigma)) between near neighbours, in place of an `RBFAffinity`.

    Points are halved along random directions down to leaves of at most `leaf`; neighbours are those
    within a leaf, O(p leaf d). A pair stays if either point names the other. All entries are scaled
    by one number, so that their sum is about that of the full matrix: gamma_P then means the same.
    Source: Dasgupta and Freund (2008).
    """
    pairs = [_neighbours(points, part, n_neighbours) for part in _leaves(points, leaf, rng)]
    rows, columns, square = (np.concatenate(column) for column in zip(*pairs, strict=True))
    graph = csr_matrix((np.exp(-square / (2.0 * sigma)), (rows, columns)), shape=(len(points),) * 2)
    graph = graph.maximum(graph.T)
    scale = _mean_affinity(points, sigma, rng) * len(points) ** 2 / graph.sum()
    return GraphAffinity(graph * scale)


def _leaves(points, leaf, rng) -> Iterator[np.ndarray]:
    """Disjoint sets of points, of at most `leaf` each."""
    waiting = [np.arange(len(points))]
    while waiting:
        part = waiting.pop()
        if len(part) <= leaf:
            yield part
            continue
        order = np.argsort(points[part] @ rng.standard_normal(points.shape[1]))
        waiting += np.array_split(part[order], 2)


def _neighbours(points, part, n_neighbours):
    """(point, neighbour, squared distance) of the nearest in a leaf, without the point itself."""
    own = points[part]
    size = (own**2).sum(axis=1)
    square = np.maximum(size[:, None] + size - 2.0 * own @ own.T, 0.0)
    np.fill_diagonal(square, np.inf)
    k = min(n_neighbours, len(part) - 1)
    nearest = np.argpartition(square, k - 1, axis=1)[:, :k]
    distances = np.take_along_axis(square, nearest, axis=1)
    return np.repeat(part, k), part[nearest].ravel(), distances.ravel()


def _mean_affinity(points, sigma, rng, n_pairs=100_000):
    first, second = rng.integers(len(points), size=(2, n_pairs))
    square = ((points[first] - points[second]) ** 2).sum(axis=1)
    return np.exp(-square / (2.0 * sigma)).mean()
