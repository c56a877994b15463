"""Density estimation by a histogram: f(x) = (c(b) + a) / ((n + a B) v), b the cell of x, B cells of volume v.

A cell's count c(b) does not depend on the order of the rows, so that TreeCV gives standard cross-validation
exactly. State: the counts (B,), then n.
"""

from functools import partial

import numpy as np
from numba import njit

from ..protocol import CompiledLearner
from .pegasos import check_features

_jit = njit(cache=True, nogil=True)


def histogram(lower, upper, n_bins, pseudo_count=0.5):
    """n_bins^d equal cells between lower (d,) and upper (d,); loss: -log f(x) (Table 1).

    pseudo_count: a > 0, added to every cell. Rows outside the box count in the cell nearest to them.
    """
    lower, upper = np.atleast_1d(np.asarray(lower, float)), np.atleast_1d(np.asarray(upper, float))
    if not (lower < upper).all() or n_bins < 1 or not pseudo_count > 0:
        raise ValueError(
            f"lower {lower} < upper {upper}, n_bins {n_bins} >= 1 and pseudo_count > 0 must hold"
        )
    check = partial(_check, n_features=len(lower))
    width = (upper - lower) / n_bins
    constants = np.concatenate([[n_bins, pseudo_count, np.log(width).sum()], lower, 1.0 / width])
    initial = np.zeros(n_bins ** len(lower) + 1)
    return CompiledLearner(f"histogram({n_bins} bins)", initial, constants, _update, _loss, check)


def _check(X, y, n_features):
    check_features(X, n_features)


@_jit
def _cell(constants, X, row):
    d, n_bins = X.shape[1], int(constants[0])
    cell = 0
    for j in range(d):
        place = int(np.floor((X[row, j] - constants[3 + j]) * constants[3 + d + j]))
        cell = cell * n_bins + min(max(place, 0), n_bins - 1)
    return cell


@_jit
def _update(states, at, constants, X, y, rows, start, stop):
    for i in range(start, stop):
        row = rows[i]
        states[at, _cell(constants, X, row)] += 1.0
    states[at, states.shape[1] - 1] += stop - start


@_jit
def _loss(states, at, constants, X, y, start, stop, out):
    n_cells = states.shape[1] - 1
    total = np.log(states[at, n_cells] + constants[1] * n_cells) + constants[2]
    for i in range(start, stop):
        out[i] = total - np.log(states[at, _cell(constants, X, i)] + constants[1])
