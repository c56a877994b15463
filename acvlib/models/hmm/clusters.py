"""K-means: the states that a fit starts from."""

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2

N_STARTS = 4
N_ITERATIONS = 50


def k_means(x, k, seed):
    """Labels (M,) of the rows of x in k clusters: the best of several starts by sum of squares.

    Raises ValueError if the rows have no k clusters.
    """
    if len(np.unique(x, axis=0)) < k:
        raise ValueError(f"the observed frames have fewer than {k} distinct values: lower n_states")
    best = np.inf
    labels = None
    for start in range(N_STARTS):
        rng = np.random.default_rng([seed, start])
        try:
            centres, found = kmeans2(x, k, N_ITERATIONS, minit="++", missing="raise", seed=rng)
        except ClusterError:
            continue
        squares = ((x - centres[found]) ** 2).sum()
        if squares < best and len(np.unique(found)) == k:
            best = squares
            labels = found
    if labels is None:
        raise ValueError(f"the observed frames do not fall into {k} clusters: lower n_states")
    return labels
