"""log Z and the moments of a few sums over sites, renewed where potentials change.

All moments are taken on the way up, as conditional means and covariances given a bucket's scope
(Louis 1982; law of total covariance), so that leaving a site out costs only the tables of its
ancestors in the order of elimination.
"""

from typing import NamedTuple

import numpy as np

from .checks import check_potentials, check_table
from .elimination import EliminationOrder
from .passes import TINY, ancestors, factors
from .tables import (
    columns,
    gather,
    index_buffer,
    jit,
    largest,
    locate,
    read_potentials,
    sum_out,
    table_in,
)


class Moments(NamedTuple):
    """log Z; E[S_d] (D,); the covariances (P,) of the pairs that were asked for."""

    log_partition: float
    mean: np.ndarray
    covariance: np.ndarray


class _Tables(NamedTuple):
    """What every bucket leaves to its parent; rows: its message, E[S_d | scope], then Cov(S_a, S_b
    | scope) of the pairs.
    """

    log_norm: np.ndarray  # (n,), of what the message was divided by
    rows: np.ndarray  # (1 + D + P, columns)


@jit
def _expect(conditional, values, out):
    """out = sum_z p(z | scope) values."""
    out[:] = 0.0
    for z in range(len(values)):
        for r in range(len(out)):
            out[r] += conditional[z, r] * values[z, r]


@jit
def _centred_product(a, mean_a, b, mean_b, out):
    """out = (a - mean_a) (b - mean_b), the means given the scope."""
    for z in range(len(out)):
        for r in range(out.shape[1]):
            out[z, r] = (a[z, r] - mean_a[r]) * (b[z, r] - mean_b[r])


@jit
def _gather_rows(t, b, first, values, changed, tables, known, index, logs):
    """Gather the rows from the first on from the children; those that changed have new tables."""
    for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
        rows = tables.rows if changed[c] else known.rows
        locate(t, c, index)
        for d in range(len(values)):
            add = logs or first + d > 0
            gather(rows[first + d, columns(t, c)], table_in(t, b, values[d]), index, add)


@jit
def _renew(t, node, edge, sums, pairs, changed, tables, known, logs):
    """Fill in the tables of the changed buckets; True if they are accurate."""
    new = tables.rows
    products_start = 1 + len(sums)
    buffers = np.empty((len(new), t.n_states * largest(t)))
    index = index_buffer(t)
    for b in np.flatnonzero(changed):
        here = columns(t, b)
        conditional = table_in(t, b, buffers[0])
        read_potentials(t, b, node, edge, conditional, logs)
        for d in range(len(sums)):
            value = table_in(t, b, buffers[1 + d])
            for z in range(t.n_states):
                value[z] = sums[d, t.site[b], z]
        own = buffers[:products_start]
        _gather_rows(t, b, 0, own, changed, tables, known, index, logs)
        tables.log_norm[b], least = sum_out(conditional, new[0, here], logs)
        if not least > TINY:
            return False
        for d in range(1, products_start):
            _expect(conditional, table_in(t, b, buffers[d]), new[d, here])
        for p in range(len(pairs)):
            i = 1 + pairs[p, 0]
            j = 1 + pairs[p, 1]
            first = table_in(t, b, buffers[i])
            second = table_in(t, b, buffers[j])
            product = table_in(t, b, buffers[products_start + p])
            _centred_product(first, new[i, here], second, new[j, here], product)
        products = buffers[products_start:]
        _gather_rows(t, b, products_start, products, changed, tables, known, index, logs)
        for d in range(products_start, len(new)):
            _expect(conditional, table_in(t, b, buffers[d]), new[d, here])
    return True


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
        self._tables = self._empty_tables()
        everything = np.ones(len(elimination.site), bool)
        self._logs = False
        whole = self._sum(self._given, everything, self._tables)
        if whole is None:
            self._logs = True
            whole = self._sum(self._given, everything, self._tables)
        self.whole: Moments = whole

    def renewed(self, node, edge, sums) -> Moments:
        """Moments where potentials and sums differ from those given: cheap if at a few sites."""
        given = self._check(node, edge, sums)
        found = self._sum(given, self._changed(*given), self._empty_tables())
        return found or SumMoments(*given, self.pairs, self.elimination).whole

    def _check(self, node, edge, sums):
        sums = check_table("sums", sums, (len(sums), *np.shape(node)))
        if self.pairs.size and not 0 <= self.pairs.min() <= self.pairs.max() < len(sums):
            raise ValueError(f"pairs must be of sums 0 ... {len(sums) - 1}")
        return *check_potentials(node, edge, self.elimination), sums

    def _empty_tables(self):
        n_rows = 1 + len(self._given[2]) + len(self.pairs)
        rows = np.empty((n_rows, self.elimination.start[-1]))
        return _Tables(np.empty(len(self.elimination.site)), rows)

    def _changed(self, node, edge, sums):
        """The buckets to be summed out anew, (n,) bool."""
        old_node, old_edge, old_sums = self._given
        moved = (node != old_node).any(axis=1) | (sums != old_sums).any(axis=(0, 2))
        ends = self.elimination.ends[(edge != old_edge).any(axis=(1, 2))]
        moved[ends] = True
        return ancestors(self.elimination, np.flatnonzero(moved))

    def _sum(self, given, changed, tables):
        """Moments, from the changed buckets and the known others; None if products underflow."""
        t = self.elimination
        known = self._tables
        node, edge, shift = factors(*given[:2], self._logs)
        sums = given[2]
        if not _renew(t, node, edge, sums, self.pairs, changed, tables, known, self._logs):
            return None
        log_norm = np.where(changed, tables.log_norm, known.log_norm)
        roots = np.flatnonzero(t.parent < 0)
        place = t.start[roots]  # their tables have one column
        rows = np.where(changed[roots], tables.rows[:, place], known.rows[:, place])
        moments = rows[1:].sum(axis=1)
        log_z = float(shift + log_norm.sum())
        return Moments(log_z, moments[: len(sums)], moments[len(sums) :])
