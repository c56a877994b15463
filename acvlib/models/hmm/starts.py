"""Starts of an HMM: clusters of its frames, in the order of states that `fixed` asks for."""

from itertools import permutations

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2, vq
from scipy.special import xlogy

from .frames import Frames
from .parameters import Simplex

N_CLUSTERINGS = 4  # of which K-means keeps the best
ALL_ORDERS = 6  # states up to which every order is tried
FORBIDDEN = 1e-9  # in place of a probability of 0, so that fewer moves of it are better


def k_means(x: np.ndarray, k: int, rng: np.random.Generator, lower: str = "n_states") -> np.ndarray:
    """Labels (M,) of the rows of x in k clusters: the best of several by sum of squares.

    Raises ValueError if the rows have no k clusters.
    """
    if len(np.unique(x, axis=0)) < k:
        raise ValueError(f"the observed frames have fewer than {k} distinct values: lower {lower}")
    runs = []
    for start in range(N_CLUSTERINGS):
        try:
            centres, labels = kmeans2(x, k, 50, minit="++", missing="raise", seed=rng)
        except ClusterError:
            continue
        if len(np.unique(labels)) == k:
            runs.append((((x - centres[labels]) ** 2).sum(), start, labels))
    if not runs:
        raise ValueError(f"the observed frames do not fall into {k} clusters: lower {lower}")
    return min(runs, key=lambda run: run[:2])[2]


def nearest(x: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Labels (M,) of the rows of x: the nearest of k drawn from its distinct rows.

    Rare rows are drawn as often as others: a row twice changes no start, nor does a weight of 2.
    """
    distinct = np.unique(x, axis=0)
    centres = distinct[rng.choice(len(distinct), k, replace=False)]
    return vq(x, centres)[0]


def in_order(labels: np.ndarray, frames: Frames, law: Simplex) -> np.ndarray:
    """The labels (M,) renamed, so that their path is as likely as can be under a chain's law.

    All orders are tried up to `ALL_ORDERS` states; beyond, an assignment has few forbidden moves.
    """
    if law.fixed is None:
        return labels
    k = law.shape[1]
    observed, starts = frames.observed, frames.starts
    counts = np.zeros((k + 1, k))
    first = starts[:-1][observed[starts[:-1]]]
    np.add.at(counts, (0, labels[first]), 1.0)
    moves = observed[1:] & observed[:-1]
    moves[starts[1:-1] - 1] = False
    now = np.flatnonzero(moves)
    np.add.at(counts, (1 + labels[now], labels[now + 1]), 1.0)
    if k <= ALL_ORDERS:
        orders = np.array(list(permutations(range(k))))
        order = orders[_log_likelihoods(counts, orders, law).argmax()]
    else:
        order = _assigned(counts, law)
    return np.argsort(order)[labels]


def _log_likelihoods(counts, orders, law):
    """Of a path's counts (K + 1, K), state k being label order[k], at the likeliest rows: (n,)."""
    first = counts[0][orders][:, None]
    moves = counts[1:][orders[:, :, None], orders[:, None, :]]
    every = np.concatenate([first, moves], axis=1)
    free = every * law.free
    total = free.sum(axis=2)
    likely = xlogy(free, free).sum(axis=2) - xlogy(total, total) + total * np.log(law.left[:, 0])
    known = np.log(np.fmax(law.fixed, FORBIDDEN)) * ~law.free
    return (likely + (every * known).sum(axis=2)).sum(axis=1)


def _assigned(counts, law):
    """An order of few forbidden moves, the start of a sequence being one state more."""
    from scipy.optimize import quadratic_assignment  # slow to import

    k = law.shape[1]
    forbidden, moves = np.zeros((2, k + 1, k + 1))
    forbidden[:k, :k], forbidden[k, :k] = law.fixed[1:] == 0.0, law.fixed[0] == 0.0
    moves[:k, :k], moves[k, :k] = counts[1:], counts[0]
    found = quadratic_assignment(forbidden, moves, options={"partial_match": [[k, k]]})
    return found.col_ind[:k]
