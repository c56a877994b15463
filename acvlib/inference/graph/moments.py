"""log Z and the moments of a few sums over sites, renewed where potentials change.

All moments are taken on the way up, as conditional means and covariances given a bucket's scope
(Louis 1982; law of total covariance), so that leaving a site out costs only the tables of its
ancestors in the order of elimination.
"""

import threading
from typing import NamedTuple

import numpy as np

from .checks import check_potentials, check_table
from .elimination import EliminationOrder
from .passes import TINY, ancestors
from .tables import buffer_size, gather, half_buffers, jit, sum_bucket, table_in


class Moments(NamedTuple):
    """log Z; E[S_d] (D,); the covariances (P,) of the pairs that were asked for."""

    log_partition: float
    mean: np.ndarray
    covariance: np.ndarray


class _Tables(NamedTuple):
    """Of every bucket: the log of what its message was divided by, its message and its moments."""

    log_norm: np.ndarray  # (n,)
    message: np.ndarray  # (entries,)
    moment: np.ndarray  # (D + P, entries): E[S_d | scope], then Cov(S_a, S_b | scope) of the pairs


@jit
def _centred_product(a, mean_a, b, mean_b, out):
    """out = (a - mean_a) (b - mean_b), the means given the scope."""
    for z in range(out.shape[0]):
        for r in range(out.shape[1]):
            out[z, r] = (a[z, r] - mean_a[r]) * (b[z, r] - mean_b[r])


@jit
def _expect(conditional, values, out):
    """out = sum_z p(z | scope) values."""
    out[:] = 0.0
    for z in range(len(values)):
        for r in range(len(out)):
            out[r] += conditional[z, r] * values[z, r]


@jit
def _renew(t, node, edge, sums, pairs, changed, tables, logs):
    """Computes the tables of the changed buckets from those of their children; True if accurate."""
    k, n_sums = t.n_states, len(sums)
    low, high = half_buffers(t, node)
    size = buffer_size(t)
    buffer, products, values = np.empty(size), np.empty(size), np.empty((n_sums, size))
    for b in np.flatnonzero(changed):
        children = t.child[t.child_start[b] : t.child_start[b + 1]]
        score = table_in(t, b, buffer)
        log_norm, least = sum_bucket(t, b, node, edge, tables.message, score, low, high, logs)
        if not least > TINY:
            return False
        tables.log_norm[b] = log_norm
        given = score.reshape((k, -1))
        here = slice(t.start[b], t.start[b + 1])
        for d in range(n_sums):
            value = table_in(t, b, values[d])
            for z in range(k):
                value[z] = sums[d, t.site[b], z]
            for c in children:
                gather(t, c, tables.moment[d], value, True)
            _expect(given, value.reshape((k, -1)), tables.moment[d, here])
        for p in range(len(pairs)):
            i, j = pairs[p]
            first = table_in(t, b, values[i]).reshape((k, -1))
            second = table_in(t, b, values[j]).reshape((k, -1))
            product = table_in(t, b, products)
            mean_i, mean_j = tables.moment[i, here], tables.moment[j, here]
            _centred_product(first, mean_i, second, mean_j, product.reshape((k, -1)))
            for c in children:
                gather(t, c, tables.moment[n_sums + p], product, True)
            _expect(given, product.reshape((k, -1)), tables.moment[n_sums + p, here])
    return True


@jit
def _copy(t, changed, source, target):
    for b in np.flatnonzero(changed):
        here = slice(t.start[b], t.start[b + 1])
        target.log_norm[b] = source.log_norm[b]
        target.message[here] = source.message[here]
        for d in range(len(source.moment)):
            target.moment[d, here] = source.moment[d, here]


class SumMoments:
    """Means and covariances of sums S_d = sum_i sums[d, i, z_i] under a graph's distribution.

    Parameters
    ----------
    node : (n, K), edge : (m, K, K)
        Log potentials, finite.
    sums : (D, n, K)
    pairs : integers (P, 2)
        The pairs (a, b) of sums whose covariances are wanted.
    """

    def __init__(self, node, edge, sums, pairs, elimination: EliminationOrder):
        self.elimination = elimination
        self.pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        self._given = self._check(node, edge, sums)
        self._thread = threading.local()
        n = len(elimination.site)
        n_moments = len(sums) + len(self.pairs)
        entries = elimination.start[-1]
        self._tables = _Tables(np.empty(n), np.empty(entries), np.empty((n_moments, entries)))
        everything = np.ones(n, bool)
        self._logs = False
        if not self._renew(self._given, everything, self._tables):
            self._logs = True
            self._renew(self._given, everything, self._tables)
        self.whole: Moments = self._totals(self._tables)
        self._edge_site = np.empty(len(elimination.edge), np.int64)  # the end that goes first
        self._edge_site[elimination.edge] = np.repeat(
            elimination.site, np.diff(elimination.edge_start)
        )

    def renewed(self, node, edge, sums) -> Moments:
        """Moments where potentials and sums differ from those given: cheap if at a few sites."""
        given = self._check(node, edge, sums)
        changed = self._changed(*given)
        thread = self._thread
        if not hasattr(thread, "tables"):
            thread.tables = _Tables(*(table.copy() for table in self._tables))
            thread.changed = np.zeros_like(changed)
        _copy(self.elimination, thread.changed & ~changed, self._tables, thread.tables)
        thread.changed = changed
        if self._renew(given, changed, thread.tables):
            return self._totals(thread.tables)
        node, edge, sums = given
        return SumMoments(node, edge, sums, self.pairs, self.elimination).whole

    def _check(self, node, edge, sums):
        sums = check_table("sums", sums, (len(sums), *np.shape(node)))
        if self.pairs.size and not 0 <= self.pairs.min() <= self.pairs.max() < len(sums):
            raise ValueError(f"pairs must be of sums 0 ... {len(sums) - 1}")
        return *check_potentials(node, edge, self.elimination), sums

    def _renew(self, given, changed, tables):
        return _renew(self.elimination, *given, self.pairs, changed, tables, self._logs)

    def _changed(self, node, edge, sums):
        """The buckets to be summed out anew, (n,) bool."""
        old_node, old_edge, old_sums = self._given
        moved = (node != old_node).any(axis=1) | (sums != old_sums).any(axis=(0, 2))
        ends = self._edge_site[(edge != old_edge).any(axis=(1, 2))]
        return ancestors(self.elimination, np.concatenate([np.flatnonzero(moved), ends]))

    def _totals(self, tables):
        roots = self.elimination.start[:-1][self.elimination.parent < 0]  # tables of one entry
        moments = tables.moment[:, roots].sum(axis=1)
        n_sums = len(self._given[2])
        return Moments(float(tables.log_norm.sum()), moments[:n_sums], moments[n_sums:])
