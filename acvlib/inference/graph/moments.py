"""Means and covariances of sums S over sites and edges of a graph: the second derivatives of log Z (Louis 1982)."""

import numpy as np

from .collect import add, add_message, jit, local, room, scratch, table, workplace
from .distribute import project, read_off, send


@jit
def expect(t, conditional, d_node, d_edge):
    """Conditional means of D sums S = d_node + d_edge over all sites and edges at or below a bucket.

    d_node (D, n, k), d_edge (D, m, k, k). Returns E[S | z, scope], (D, entries) as `conditional`, and E[S | scope].
    """
    inner, outer = np.empty((len(d_node), len(conditional))), np.zeros((len(d_node), t.start[-1]))
    low, high = scratch(t)
    for b in range(len(t.site)):
        given = table(t, b, conditional)
        for d in range(len(d_node)):
            mean, out = table(t, b, inner[d]), outer[d, t.start[b] : t.start[b + 1]]
            local(t, b, d_node[d], d_edge[d], low, high)
            add(mean, low, high)
            for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
                add_message(t, c, outer[d], mean)
            for z in range(t.n_states):
                for h in range(t.n_high[b]):
                    for i in range(t.n_low[b]):
                        out[h * t.n_low[b] + i] += given[z, h, i] * mean[z, h, i]
    return inner, outer


@jit
def covariance(t, conditional, separator, inner, outer):
    """Cov(S_a, S_b), (D, D), from `expect`: the sum over buckets of E[Cov(E[S_a | z, scope], E[S_b | z, scope])].

    By the law of total covariance, applied as the sites are revealed in the reverse order of elimination.
    """
    total, gap = np.zeros((len(inner), len(inner))), np.empty(len(inner))
    for b in range(len(t.site)):
        n, at = t.start[b + 1] - t.start[b], t.start[b]
        for z in range(t.n_states):
            base = t.n_states * at + z * n
            for r in range(n):
                weight = separator[at + r] * conditional[base + r]
                for d in range(len(inner)):
                    gap[d] = inner[d, base + r] - outer[d, at + r]
                    for other in range(d + 1):
                        total[d, other] += weight * gap[d] * gap[other]
    return total + np.tril(total, -1).T


@jit
def tangent(t, n_edges, conditional, separator, inner, outer):
    """Derivative of the marginals in the direction S, from `expect`: Cov(S, 1{z_i}) and Cov(S, 1{z_a, z_b}).

    S must have mean 0. `above` is E[what of S lies not at or below the bucket | scope].
    """
    k = t.n_states
    above = np.zeros(t.start[-1])
    one = room(t)
    gamma, xi = np.empty((len(t.site), k)), np.empty((n_edges, k, k))
    low, high = scratch(t)
    for b in range(len(t.site) - 1, -1, -1):
        moved = workplace(t, b, one)
        flat, n, at = moved.reshape((k, -1)), t.start[b + 1] - t.start[b], t.start[b]
        for z in range(k):
            base = k * at + z * n
            for r in range(n):
                weight = conditional[base + r] * separator[at + r]
                flat[z, r] = weight * (inner[base + r] + above[at + r])
        project(t, b, moved, low, high)
        read_off(t, b, low, high, gamma, xi)
        for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
            send(t, c, moved, above)
            for r in range(t.start[c], t.start[c + 1]):
                above[r] = above[r] / separator[r] - outer[r] if separator[r] > 0.0 else 0.0
    return gamma, xi
