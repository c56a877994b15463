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
def _gather_children(t, b, changed, new, known, table, index, add):
    """Gather one row of the children, of the new tables where they have changed."""
    for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
        row = new if changed[c] else known
        gather(t, c, row[columns(t, c)], table, index, add)


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
def _renew(t, node, edge, sums, pairs, changed, tables, known, logs):
    """Fill in the tables of the changed buckets; True if they are accurate."""
    new, old = tables.rows, known.rows
    n_sums = len(sums)
    buffers = np.empty((n_sums + 2, t.n_states * largest(t)))
    index = index_buffer(t)
    for b in np.flatnonzero(changed):
        here = columns(t, b)
        conditional = table_in(t, b, buffers[n_sums])
        read_potentials(t, b, node, edge, conditional, logs)
        _gather_children(t, b, changed, new[0], old[0], conditional, index, logs)
        tables.log_norm[b], least = sum_out(conditional, new[0, here], logs)
        if not least > TINY:
            return False
        for d in range(n_sums):
            value = table_in(t, b, buffers[d])
            for z in range(t.n_states):
                value[z] = sums[d, t.site[b], z]
            _gather_children(t, b, changed, new[1 + d], old[1 + d], value, index, True)
            _expect(conditional, value, new[1 + d, here])
        product = table_in(t, b, buffers[n_sums + 1])
        for p in range(len(pairs)):
            i, j = pairs[p]
            first = table_in(t, b, buffers[i])
            second = table_in(t, b, buffers[j])
            _centred_product(first, new[1 + i, here], second, new[1 + j, here], product)
            row = 1 + n_sums + p
            _gather_children(t, b, changed, new[row], old[row], product, index, True)
            _expect(conditional, product, new[row, here])
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
