"""Exact sums over the discrete states of any pairwise graph, by variable elimination; differentiable by autograd.

    log Z = log sum_z exp( sum_i node[i, z_i] + sum_e edge[e, z_a, z_b] ),  edge e joins sites a and b

Nodes are eliminated in a min-fill order; the cost is exponential in the width of that order, so that the
graph should be small or nearly a tree. Source: Koller and Friedman (2009), chapter 9.
"""

from itertools import combinations

import autograd.numpy as np

MAX_WIDTH = 20  # sites in one table: 2^20 entries for two states


def min_fill_order(n_sites, edges):
    """An order of elimination that adds few edges at each step: a list of sites."""
    neighbours = {i: set() for i in range(n_sites)}
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    order = []
    while neighbours:
        site = min(neighbours, key=lambda i: (_fill(neighbours, i), i))
        around = neighbours.pop(site)
        for a in around:
            neighbours[a] = (neighbours[a] | around) - {a, site}
        order.append(site)
    return order


def _fill(neighbours, site):
    return sum(b not in neighbours[a] for a, b in combinations(neighbours[site], 2))


def log_partition(node, edges, edge, order=None):
    """log Z of node potentials (n, K), edges (m, 2) and their potentials (m, K, K): a float."""
    factors = [((i,), node[i]) for i in range(len(node))]
    factors += [((int(a), int(b)), edge[e]) for e, (a, b) in enumerate(edges)]
    total = 0.0
    for site in min_fill_order(len(node), edges) if order is None else order:
        touching = [factor for factor in factors if site in factor[0]]
        factors = [factor for factor in factors if site not in factor[0]]
        scope, table = _sum_out(site, touching)
        if scope:
            factors.append((scope, table))
        else:
            total = total + table
    return total


def _sum_out(site, factors):
    """The factor that remains of `factors` once `site`, which is in all of them, is summed out."""
    rest = sorted({i for scope, _ in factors for i in scope} - {site})
    if len(rest) >= MAX_WIDTH:
        raise ValueError(f"eliminating site {site} needs a table over {len(rest)} sites, above {MAX_WIDTH - 1}")
    scope = (site, *rest)
    table = sum(_aligned(part, table, scope) for part, table in factors)
    peak = np.max(table, axis=0, keepdims=True)
    return tuple(rest), np.log(np.sum(np.exp(table - peak), axis=0)) + peak[0]


def _aligned(part, table, scope):
    """`table` over sites `part` as a broadcastable table over sites `scope`."""
    order = sorted(range(len(part)), key=lambda k: scope.index(part[k]))
    shape = [table.shape[part.index(i)] if i in part else 1 for i in scope]
    return np.reshape(np.transpose(table, order), shape)
