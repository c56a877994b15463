"""The second pass of `graph`, back along the `Elimination`: marginals and samples from the tables p(z | scope)."""

import numpy as np

from .collect import jit, room, scratch, table, workplace


@jit
def project(t, b, table, low, high):
    """Sums of a table over the high digits, into low (k, n_low), and over the low digits, into high (k, n_high)."""
    for z in range(table.shape[0]):
        low[z, : t.n_low[b]] = 0.0
        for h in range(table.shape[1]):
            total = 0.0
            for i in range(table.shape[2]):
                low[z, i] += table[z, h, i]
                total += table[z, h, i]
            high[z, h] = total


@jit
def read_off(t, b, low, high, node, edge):
    """Sums over single sites and edges of a bucket, from the projections of its table."""
    k = t.n_states
    for z in range(k):
        node[t.site[b], z] = high[z, : t.n_high[b]].sum()
    for j in range(t.edge_start[b], t.edge_start[b + 1]):
        e, digit = t.edge[j], t.edge_digit[j]
        part, size = (low, t.n_low[b]) if t.edge_is_low[j] else (high, t.n_high[b])
        edge[e] = 0.0
        for z in range(k):
            for r in range(size):
                other = (r // digit) % k
                if t.edge_reversed[j]:
                    edge[e, other, z] += part[z, r]
                else:
                    edge[e, z, other] += part[z, r]


@jit
def send(t, c, table, out):
    """Sums a bucket's table over all but the scope of its child c."""
    low, high = t.low_map[t.low_start[c] :], t.high_map[t.high_start[c] :]
    block = (t.start[c + 1] - t.start[c]) // t.n_states
    out[t.start[c] : t.start[c + 1]] = 0.0
    for z in range(table.shape[0]):
        for h in range(table.shape[1]):
            part = out[t.start[c] + z * block + high[h] :]
            for i in range(table.shape[2]):
                part[low[i]] += table[z, h, i]


@jit
def _believe(conditional, separator, belief):
    """p(z, scope) = p(z | scope) p(scope)."""
    for z in range(belief.shape[0]):
        for r in range(belief.shape[1]):
            belief[z, r] = conditional[z, r] * separator[r]


@jit
def distribute(t, n_edges, conditional, wanted):
    """(P(z_i = k) (n, k), P(z_a, z_b) (m, k, k), P(scope) of each bucket) of the buckets that are `wanted`.

    A wanted bucket's parent must be wanted too. What is not wanted is left undefined.
    """
    k = t.n_states
    separator = np.ones(t.start[-1])
    one = room(t)
    gamma, xi = np.empty((len(t.site), k)), np.empty((n_edges, k, k))
    low, high = scratch(t)
    for b in range(len(t.site) - 1, -1, -1):
        if wanted[b]:
            belief = workplace(t, b, one)
            given = table(t, b, conditional).reshape((k, -1))
            _believe(given, separator[t.start[b] : t.start[b + 1]], belief.reshape((k, -1)))
            project(t, b, belief, low, high)
            read_off(t, b, low, high, gamma, xi)
            for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
                if wanted[c]:
                    send(t, c, belief, separator)
    return gamma, xi, separator


@jit
def ancestors(t, sites):
    """Marks the buckets of the sites and all that lie above them, (n,) bool."""
    bucket = np.empty(len(t.site), np.int64)
    for b in range(len(t.site)):
        bucket[t.site[b]] = b
    marked = np.zeros(len(t.site), np.bool_)
    for site in sites:
        b = bucket[site]
        while b >= 0 and not marked[b]:
            marked[b] = True
            b = t.parent[b]
    return marked


@jit
def draw(t, conditional, uniform):
    """One sample of all states (n,) from n uniform numbers, site by site in the reverse order of elimination."""
    k, z = t.n_states, np.zeros(len(t.site), np.int64)
    for b in range(len(t.site) - 1, -1, -1):
        r, digit, n = 0, 1, t.start[b + 1] - t.start[b]
        for site in t.scope[t.scope_start[b] : t.scope_start[b + 1]]:
            r += digit * z[site]
            digit *= k
        reached, state = conditional[k * t.start[b] + r], 0
        while reached < uniform[b] and state < k - 1:
            state += 1
            reached += conditional[k * t.start[b] + state * n + r]
        z[t.site[b]] = state
    return z
