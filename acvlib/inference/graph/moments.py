"""log Z and the moments of a few sums over sites, renewed where potentials change.

All moments are taken on the way up, as conditional means and covariances given a bucket's scope
(Louis 1982; law of total covariance), so that leaving a site out costs only the tables of its
ancestors in the order of elimination.
"""

from typing import NamedTuple

import numpy as np

from .elimination import EliminationOrder
from .passes import TINY, ancestors, check_potentials, check_shape, factors
from .tables import (
    columns,
    gather,
    index_buffer,
    jit,
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


@jit
def _expect(conditional, values, out):
    """out = sum_z p(z | scope) values."""
    out[:] = 0.0
    for z in range(len(values)):
        for r in range(len(out)):
            out[r] += conditional[z, r] * values[z, r]


@jit
def _expect_product(conditional, a, mean_a, b, mean_b, out):
    """out = sum_z p(z | scope) (a - mean_a) (b - mean_b), the means given the scope."""
    out[:] = 0.0
    for z in range(len(a)):
        for r in range(len(out)):
            out[r] += conditional[z, r] * (a[z, r] - mean_a[r]) * (b[z, r] - mean_b[r])


@jit
def _expect_child(conditional, row, index, out):
    """Add sum_z p(z | scope) of a row of a child that `locate` found."""
    block = len(row) // len(conditional)
    for z in range(len(conditional)):
        part = row[z * block :]
        for r in range(len(out)):
            out[r] += conditional[z, r] * part[index[r]]


@jit
def _renew(t, node, edge, sums, pairs, sites, log_norm, new, known, logs):
    """Sum out anew the buckets of the sites marked and those above them; True if accurate.

    log_norm (n,) of what messages were divided by; rows of new and known (1 + D + P, columns): the
    messages, E[S_d | scope], then Cov(S_a, S_b | scope) of the pairs.
    """
    n_own = 1 + len(sums)
    index = index_buffer(t)
    buffers = np.empty((n_own, t.n_states * len(index)))
    changed = ancestors(t, sites)
    for b in np.flatnonzero(changed):
        here = columns(t, b)
        children = t.child[t.child_start[b] : t.child_start[b + 1]]
        conditional = table_in(t, b, buffers[0])
        read_potentials(t, b, node, edge, conditional, logs)
        for d in range(len(sums)):
            table_in(t, b, buffers[1 + d])[:] = sums[d, t.site[b]].reshape((-1, 1))
        for c in children:
            rows = new if changed[c] else known
            locate(t, c, index)
            for d in range(n_own):
                add = logs or d > 0
                gather(rows[d, columns(t, c)], table_in(t, b, buffers[d]), index, add)
        log_norm[b], least = sum_out(conditional, new[0, here], logs)
        if not least > TINY:
            return False
        for d in range(1, n_own):
            _expect(conditional, table_in(t, b, buffers[d]), new[d, here])
        for p in range(len(pairs)):
            i = 1 + pairs[p, 0]
            j = 1 + pairs[p, 1]
            first = table_in(t, b, buffers[i])
            second = table_in(t, b, buffers[j])
            out = new[n_own + p, here]
            _expect_product(conditional, first, new[i, here], second, new[j, here], out)
        for c in children:
            rows = new if changed[c] else known
            locate(t, c, index)
            for d in range(n_own, len(new)):
                _expect_child(conditional, rows[d, columns(t, c)], index, new[d, here])
    return True


class SumMoments:
    """Means and covariances of sums S_d = sum_i sums[d, i, z_i] under a graph's distribution.

    Potentials node (n, K) and edge (m, K, K); sums (D, n, K); pairs (P, 2) of the sums whose
    covariances are wanted.
    """

    def __init__(self, node, edge, sums, pairs, elimination: EliminationOrder):
        self.elimination = elimination
        self.pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        self._given = self._check(node, edge, sums)
        self._roots = elimination.start[:-1][elimination.parent < 0]  # their tables' one column
        everywhere = np.ones(len(node), bool)
        n_rows = 1 + len(sums) + len(self.pairs)
        self._log_norm = np.empty(len(node))
        self._rows = np.empty((n_rows, elimination.start[-1]))
        self._logs = False
        whole = self._sum(self._given, everywhere, self._log_norm, self._rows)
        if whole is None:
            self._logs = True
            whole = self._sum(self._given, everywhere, self._log_norm, self._rows)
        self.whole: Moments = whole

    def renewed(self, node, edge, sums) -> Moments:
        """Moments where potentials and sums differ from those given: cheap if at a few sites."""
        given = self._check(node, edge, sums)
        rows = np.empty_like(self._rows)
        rows[:, self._roots] = self._rows[:, self._roots]
        found = self._sum(given, self._moved(*given), self._log_norm.copy(), rows)
        return found or SumMoments(node, edge, sums, self.pairs, self.elimination).whole

    def _check(self, node, edge, sums):
        node, edge = check_potentials(node, edge, self.elimination)
        sums = check_shape("sums", sums, (len(sums), *node.shape))
        if not np.isin(self.pairs, np.arange(len(sums))).all():
            raise ValueError(f"pairs must be of sums 0 ... {len(sums) - 1}")
        return node, edge, sums

    def _moved(self, node, edge, sums):
        """The sites where something differs from what was given, (n,) bool."""
        old_node, old_edge, old_sums = self._given
        moved = (node != old_node).any(axis=1) | (sums != old_sums).any(axis=(0, 2))
        edge_moved = (edge != old_edge).any(axis=(1, 2))
        moved[self.elimination.ends[edge_moved]] = True
        return moved

    def _sum(self, given, sites, log_norm, rows):
        """Moments, from what the sites change and what is known; None if products underflow."""
        node, edge, sums = given
        node, edge, shift = factors(node, edge, self._logs)
        found = (log_norm, rows, self._rows, self._logs)
        if not _renew(self.elimination, node, edge, sums, self.pairs, sites, *found):
            return None
        moments = rows[1:, self._roots].sum(axis=1)
        log_z = float(shift + log_norm.sum())
        return Moments(log_z, moments[: len(sums)], moments[len(sums) :])
