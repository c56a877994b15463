"""K-means, from which fits of HMMs start."""

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2

N_CLUSTERINGS = 4  # of which K-means keeps the best


def k_means(x: np.ndarray, k: int, seed: int, lower: str = "n_states") -> np.ndarray:
    """Labels (M,) of the rows of x in k clusters: the best of several by sum of squares.

    Raises ValueError if the rows have no k clusters.
    """
    if len(np.unique(x, axis=0)) < k:
        raise ValueError(f"the observed frames have fewer than {k} distinct values: lower {lower}")
    found = []
    for start in range(N_CLUSTERINGS):
        rng = np.random.default_rng([seed, start])
        try:
            centres, labels = kmeans2(x, k, 50, minit="++", missing="raise", seed=rng)
        except ClusterError:
            continue
        if len(np.unique(labels)) == k:
            found.append((((x - centres[labels]) ** 2).sum(), start, labels))
    if not found:
        raise ValueError(f"the observed frames do not fall into {k} clusters: lower {lower}")
    return min(found, key=lambda one: one[:2])[2]
