"""Density estimation by a histogram."""

import numpy as np
from numba import njit

from ...checks import check_whole, real_array, real_number
from ..protocol import CompiledLearner

MOST_CELLS = 2**27

_jit = njit(cache=True, nogil=True)


def histogram(
    lower: np.ndarray, upper: np.ndarray, n_bins: int, pseudo_count: float = 0.5
) -> CompiledLearner:
    """Estimate f(x) = (c(b) + a) / ((n + a B) v), b the cell of x; loss: -log f(x) (Table 1).

    B = n_bins^d equal cells of volume v between lower (d,) and upper (d,); rows outside the box
    count in the cell nearest to them. State: the counts c (B,), then n. The order of rows does not
    matter: TreeCV is standard cross-validation. pseudo_count : a > 0, added to every cell.
    """
    lower = np.atleast_1d(real_array("lower", lower))
    upper = np.atleast_1d(real_array("upper", upper))
    pseudo_count = real_number("pseudo_count", pseudo_count, above=0.0)
    n_bins = check_whole("n_bins", n_bins, 1)
    if lower.shape != upper.shape or lower.ndim > 1 or not len(lower) or not (lower < upper).all():
        raise ValueError(f"lower {lower} < upper {upper} must hold, for each feature")
    if n_bins ** len(lower) > MOST_CELLS:
        raise ValueError(f"{n_bins}^{len(lower)} cells: at most {MOST_CELLS} fit into memory")
    width = (upper - lower) / n_bins
    log_volume = np.log(width).sum()
    return CompiledLearner(
        name=f"histogram({n_bins} bins)",
        n_features=len(lower),
        initial=np.zeros(n_bins ** len(lower) + 1),
        constants=np.concatenate([[n_bins, pseudo_count, log_volume], lower, 1.0 / width]),
        update_kernel=_update,
        loss_kernel=_loss,
    )


@_jit
def _cell(constants, X, row):
    d = X.shape[1]
    n_bins = int(constants[0])
    cell = 0
    for j in range(d):
        lower = constants[3 + j]
        per_width = constants[3 + d + j]
        place = np.floor((X[row, j] - lower) * per_width)
        place = min(max(place, 0.0), n_bins - 1.0)
        cell = cell * n_bins + int(place)
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
    pseudo_count = constants[1]
    total = np.log(states[at, n_cells] + pseudo_count * n_cells) + constants[2]
    for i in range(start, stop):
        count = states[at, _cell(constants, X, i)]
        out[i] = total - np.log(count + pseudo_count)
