"""log Z and the moments of a few sums over sites, renewed where potentials change: at and above the changed sites.

All moments are taken on the way up, as conditional means and covariances given a bucket's scope (Louis 1982; law of
total covariance), so that leaving a site out costs only the tables of its ancestors in the order of elimination.
"""

from typing import NamedTuple

import numpy as np

from .collect import (
    TINY,
    add_message,
    exponentiate,
    jit,
    local,
    multiply,
    multiply_message,
    room,
    scratch,
    sum_out,
    workplace,
)
from .distribute import ancestors


class Tables(NamedTuple):
    """Of every bucket: its message, the log of what it was divided by, E[S_d | scope] and Cov(S_a, S_b | scope)."""

    message: np.ndarray  # (entries,)
    log_norm: np.ndarray  # (n,)
    mean: np.ndarray  # (D, entries)
    covariance: np.ndarray  # (C, C, entries), of the first C sums; a >= b


def empty_tables(elimination, n_sums, n_covariances):
    """Room for `Tables`."""
    entries = elimination.start[-1]
    shape = (n_covariances, n_covariances, entries)
    return Tables(
        np.empty(entries),
        np.empty(len(elimination.site)),
        np.empty((n_sums, entries)),
        np.empty(shape),
    )


@jit
def _given(conditional, values, out):
    """out = sum_z p(z | scope) values."""
    out[:] = 0.0
    for z in range(conditional.shape[0]):
        for h in range(conditional.shape[1]):
            for i in range(conditional.shape[2]):
                out[h * conditional.shape[2] + i] += conditional[z, h, i] * values[z, h, i]


@jit
def _gaps(a, mean_a, b, mean_b, out):
    """out = (a - mean_a) (b - mean_b), the means given the scope."""
    for z in range(out.shape[0]):
        for h in range(out.shape[1]):
            for i in range(out.shape[2]):
                r = h * out.shape[2] + i
                out[z, h, i] = (a[z, h, i] - mean_a[r]) * (b[z, h, i] - mean_b[r])


@jit
def renew(t, node, edge, sums, changed, old, new):
    """Fills `new` for the changed buckets from `old` tables of their other children; whether all is accurate.

    sums (D, n, k): S_d = sum_i sums[d, i, z_i].
    """
    k, n_sums = t.n_states, len(sums)
    low, high = scratch(t)
    one, product, inner = room(t), room(t), np.empty((n_sums, len(room(t))))
    for b in range(len(t.site)):
        if changed[b]:
            here = slice(t.start[b], t.start[b + 1])
            children = t.child[t.child_start[b] : t.child_start[b + 1]]
            score = workplace(t, b, one)
            local(t, b, node, edge, low, high)
            shift = exponentiate(low, t.n_low[b]) + exponentiate(high, t.n_high[b])
            multiply(score, low, high)
            for c in children:
                multiply_message(t, c, new.message if changed[c] else old.message, score)
            top, bottom = sum_out(score.reshape((k, -1)), new.message[here])
            if not bottom > TINY:
                return False
            new.log_norm[b] = shift + np.log(top)
            for d in range(n_sums):
                value = workplace(t, b, inner[d])
                for z in range(k):
                    value[z] = sums[d, t.site[b], z]
                for c in children:
                    add_message(t, c, new.mean[d] if changed[c] else old.mean[d], value)
                _given(score, value, new.mean[d, here])
            for d in range(len(new.covariance)):
                for other in range(d + 1):
                    value = workplace(t, b, product)
                    a, e = workplace(t, b, inner[d]), workplace(t, b, inner[other])
                    _gaps(a, new.mean[d, here], e, new.mean[other, here], value)
                    for c in children:
                        add_message(
                            t,
                            c,
                            new.covariance[d, other] if changed[c] else old.covariance[d, other],
                            value,
                        )
                    _given(score, value, new.covariance[d, other, here])
    return True


class Baseline:
    """A field and its moments, kept so that fields that differ from it at a few sites and edges cost less.

    node (n, K), edge (m, K, K), sums (D, n, K); covariances of the first `n_covariances` sums. `accurate` is False
    where products came near to underflow: `changed` must not be asked then.
    """

    def __init__(self, node, edge, sums, elimination, n_covariances=0):
        self.elimination, self.n_covariances = elimination, n_covariances
        self.tables = empty_tables(elimination, len(sums), n_covariances)
        everything = np.ones(len(elimination.site), bool)
        self.accurate = renew(elimination, node, edge, sums, everything, self.tables, self.tables)
        self.bucket = np.argsort(elimination.site)

    def changed(self, node, edge, sums, sites, ends, tables):
        """(log Z, means (D,), covariances (C, C)), or None where products come near to underflow.

        sites: where node potentials or sums differ from the baseline's; ends (e, 2): edges whose potentials do.
        tables: from `empty_tables`, overwritten.
        """
        first = self.elimination.site[self.bucket[ends].min(axis=1)]
        changed = ancestors(self.elimination, np.concatenate([sites, first]))
        if not renew(self.elimination, node, edge, sums, changed, self.tables, tables):
            return None
        return self._totals(changed, tables)

    def _totals(self, changed, tables):
        old, roots = self.tables, np.flatnonzero(self.elimination.parent < 0)
        log_z = np.where(changed, tables.log_norm, old.log_norm).sum()
        at = self.elimination.start[roots]  # a root has one entry
        mean = np.where(changed[roots], tables.mean[:, at], old.mean[:, at]).sum(axis=1)
        lower = np.where(changed[roots], tables.covariance[..., at], old.covariance[..., at]).sum(
            axis=2
        )
        return float(log_z), mean, np.tril(lower) + np.tril(lower, -1).T
