"""log Z and the moments of a few sums over sites, renewed where potentials change.

All moments are taken on the way up, as conditional means and covariances given a bucket's scope
(Louis 1982; law of total covariance), so that leaving a site out costs only the tables of its
ancestors in the order of elimination.
"""

from typing import NamedTuple

import numpy as np

from .checks import check_finite, check_potentials, check_shape
from .elimination import EliminationOrder
from .passes import ancestors, collect, collect_anew
from .tables import children, columns, gather, index_buffer, jit, locate, table_in, table_of


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
    """Add sum_z p(z | scope) (a - mean_a) (b - mean_b), the means given the scope."""
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
def _sum_moments(t, conditional, sums, pairs, wanted, known, new):
    """Fill rows of new (D + P, columns) where wanted: E[S_d | scope], Cov(S_a, S_b | scope)."""
    n_sums = len(sums)
    index = index_buffer(t)
    buffers = np.empty((n_sums, t.n_states * len(index)))
    for b in np.flatnonzero(wanted):
        here = columns(t, b)
        given = table_of(t, b, conditional)
        for d in range(n_sums):
            table_in(t, b, buffers[d])[:] = sums[d, t.site[b]].reshape((-1, 1))
        new[n_sums:, here] = 0.0
        for c in children(t, b):
            rows = new if wanted[c] else known
            there = columns(t, c)
            locate(t, c, index)
            for d in range(n_sums):
                gather(rows[d, there], table_in(t, b, buffers[d]), index, True)
            for p in range(n_sums, len(new)):
                _expect_child(given, rows[p, there], index, new[p, here])
        for d in range(n_sums):
            _expect(given, table_in(t, b, buffers[d]), new[d, here])
        for p in range(len(pairs)):
            i = pairs[p, 0]
            j = pairs[p, 1]
            first = table_in(t, b, buffers[i])
            second = table_in(t, b, buffers[j])
            out = new[n_sums + p, here]
            _expect_product(given, first, new[i, here], second, new[j, here], out)


class SumMoments:
    """Means and covariances of sums S_d = sum_i sums[d, i, z_i] under a graph's distribution.

    Potentials node (n, K) and edge (m, K, K); sums (D, n, K); pairs (P, 2) of the sums whose
    covariances are wanted.
    """

    def __init__(self, node, edge, sums, pairs, elimination: EliminationOrder):
        t = elimination
        self.elimination = t
        self.pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        self._given = self._check(node, edge, sums)
        self._roots = t.start[:-1][t.parent < 0]  # their tables' one column
        self._rows = np.empty((len(sums) + len(self.pairs), t.start[-1]))
        self._known = collect(t, *self._given[:2])
        everywhere = np.ones(len(t.site), bool)
        self.whole: Moments = self._moments(self._known, self._given[2], everywhere, self._rows)

    def renewed(self, node, edge, sums) -> Moments:
        """Moments where potentials and sums differ from those given: cheap if at a few sites."""
        node, edge, sums = self._check(node, edge, sums)
        wanted = ancestors(self.elimination, self._moved(node, edge, sums))
        found = collect_anew(self.elimination, node, edge, self._known, wanted)
        if found is None:
            return SumMoments(node, edge, sums, self.pairs, self.elimination).whole
        rows = np.empty_like(self._rows)
        rows[:, self._roots] = self._rows[:, self._roots]
        return self._moments(found, sums, wanted, rows)

    def _check(self, node, edge, sums):
        node, edge = check_potentials(node, edge, self.elimination)
        check_shape("sums", sums, (len(sums), *node.shape))
        if not np.isin(self.pairs, np.arange(len(sums))).all():
            raise ValueError(f"pairs must be of sums 0 ... {len(sums) - 1}")
        return node, edge, check_finite("sums", sums)

    def _moved(self, node, edge, sums):
        """The sites where something differs from what was given, (n,) bool."""
        old_node, old_edge, old_sums = self._given
        moved = (node != old_node).any(axis=1) | (sums != old_sums).any(axis=(0, 2))
        edge_moved = (edge != old_edge).any(axis=(1, 2))
        moved[self.elimination.ends[edge_moved]] = True
        return moved

    def _moments(self, found, sums, wanted, rows):
        """Moments, from what the buckets wanted change and what is known."""
        conditional = found.conditional
        _sum_moments(self.elimination, conditional, sums, self.pairs, wanted, self._rows, rows)
        moments = rows[:, self._roots].sum(axis=1)
        return Moments(found.log_partition, moments[: len(sums)], moments[len(sums) :])
