"""log Z of many sentences through autograd, in one pass over places: the reference."""

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp, primitive


def places(starts: np.ndarray) -> list[np.ndarray]:
    """The tokens at each place of a sentence, those of longer sentences first."""
    lengths = np.diff(starts)
    place = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    order = np.lexsort((-np.repeat(lengths, lengths), place))
    return np.split(order, np.cumsum(np.bincount(place))[:-1])


def log_partition(parts, node, starts, own_places, weights):
    """sum_t weights_t log(Z_1..t / Z_1..t-1), Z_1..t summed over the tags up to t.

    parts: log-potentials of start, transitions and end; node (n_tokens, K): factors of the tags.
    """
    start, transitions, end = parts
    link = anp.exp(transitions)
    after = np.arange(1, len(node) + 1)
    last = np.isin(after, starts)[:, None]
    alpha = anp.exp(start)
    total = 0.0
    for t, here in enumerate(own_places):
        reach = anp.dot(alpha[: len(here)], link) if t else alpha
        alpha = reach * node[here] * anp.exp(last[here] * end)
        norm = anp.sum(alpha, axis=1)
        alpha = alpha / norm[:, None]
        total = total + anp.dot(weights[here], anp.log(norm))
    return total


@primitive
def sparse_product(matrix, dense):
    """matrix @ dense, a sparse matrix and an array that autograd may follow."""
    return matrix @ dense


defvjp(sparse_product, lambda _, matrix, dense: lambda g: sparse_product(matrix.T, g), argnums=[1])
