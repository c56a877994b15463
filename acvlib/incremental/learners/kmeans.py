"""Mini-batch K-means."""

from functools import partial

import numpy as np
from numba import njit

from ...checks import check_whole
from ..protocol import FASTMATH, MOST_FEATURES, CompiledLearner

_jit = njit(cache=True, nogil=True, fastmath=FASTMATH)


def k_means(n_features: int, n_clusters: int, batch_size: int = 1) -> CompiledLearner:
    """Move K centres, at first the first K rows, towards each batch at the rate 1 / rows had.

    Loss: squared distance to the nearest centre (Joulani et al. 2015, Table 1). Rows of a batch
    that is not complete wait in the state, as sums: centres (K, d), their counts (K,), waiting sums
    (K, d), waiting counts (K,), rows seen. Source: Sculley (2010).
    """
    n_features = check_whole("n_features", n_features, 1, MOST_FEATURES)
    n_clusters = check_whole("n_clusters", n_clusters, 1, MOST_FEATURES // n_features)
    check_whole("batch_size", batch_size, 1)
    return CompiledLearner(
        name=f"k_means({n_features}, n_clusters={n_clusters}, batch_size={batch_size})",
        n_features=n_features,
        initial=np.zeros(2 * n_clusters * (n_features + 1) + 1),
        constants=np.array([n_clusters, batch_size], float),
        update_kernel=_update,
        loss_kernel=_loss,
        validate=partial(_check_number, n_clusters),
    )


def _check_number(n_clusters, X, y):
    if len(X) <= n_clusters:
        raise ValueError(f"{len(X)} rows for {n_clusters} clusters: more rows are needed")


@_jit
def _views(states, at, n_clusters, d):
    """Centres, their counts, waiting sums and waiting counts."""
    state = states[at]
    size = n_clusters * d
    half = size + n_clusters
    centres = state[:size].reshape(n_clusters, d)
    sums = state[half : half + size].reshape(n_clusters, d)
    return centres, state[size:half], sums, state[half + size : 2 * half]


@_jit
def _nearest(centres, n_centres, X, row):
    """(centre, squared distance) of the nearest of the first n_centres centres."""
    best = 0
    least = np.inf
    for centre in range(n_centres):
        square = 0.0
        for j in range(X.shape[1]):
            gap = centres[centre, j] - X[row, j]
            square += gap * gap
        if square < least:
            best = centre
            least = square
    return best, least


@_jit
def _finish_batch(centres, counts, sums, waiting):
    """Each centre becomes the mean of all rows it has had; nothing waits any longer."""
    for centre in range(len(centres)):
        new = waiting[centre]
        if new > 0.0:
            counts[centre] += new
            for j in range(centres.shape[1]):
                change = sums[centre, j] - new * centres[centre, j]
                centres[centre, j] += change / counts[centre]
                sums[centre, j] = 0.0
            waiting[centre] = 0.0


@_jit
def _update(states, at, constants, X, y, rows, start, stop):
    d = X.shape[1]
    n_clusters = int(constants[0])
    batch_size = int(constants[1])
    centres, counts, sums, waiting = _views(states, at, n_clusters, d)
    seen = int(states[at, -1])
    for i in range(start, stop):
        row = rows[i]
        if 0 <= seen < n_clusters:  # a count in a damaged state may be negative
            centres[seen] = X[row]
            counts[seen] = 1.0
        else:
            centre, _ = _nearest(centres, n_clusters, X, row)
            for j in range(d):
                sums[centre, j] += X[row, j]
            waiting[centre] += 1.0
            if (seen - n_clusters + 1) % batch_size == 0:
                _finish_batch(centres, counts, sums, waiting)
        seen += 1
    states[at, -1] = seen


@_jit
def _loss(states, at, constants, X, y, start, stop, out):
    n_clusters = int(constants[0])
    centres, _, _, _ = _views(states, at, n_clusters, X.shape[1])
    n_centres = min(n_clusters, int(states[at, -1]))
    for i in range(start, stop):
        _, out[i] = _nearest(centres, n_centres, X, i)
