"""Learners for `treecv`: compiled ones, and whatever scikit-learn has with `partial_fit`."""

from typing import Annotated

import numpy as np
from numba import njit

from ..declared import Count, Positive, Real, Whole, declared
from .learner import MOST, CompiledLearner, PartialFit

__all__ = ["PartialFit", "histogram", "k_means", "lsqsgd", "pegasos"]

Features = Annotated[int, Whole(1, MOST)]
Corner = Annotated[np.ndarray, Real("d")]
# Sums may be reordered, which lets dot products use wide registers; always in the same way.
_jit = njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})


@declared
def pegasos(n_features: Features, regularization: Positive = 1e-6) -> CompiledLearner:
    """Train a linear support vector machine; loss: misclassification, 0 or 1.

    With lambda the regularisation and w_1 = 0, row t takes w_t to

        w_(t+1) = (1 - 1/t) w_t + [y_t w_t.x_t < 1] y_t x_t / (lambda t),

    so that V_t = lambda t w_(t+1) is the plain sum of y x over the rows that violated the margin.
    State: V (d,), then t. The model is the last hypothesis, without bias and without projection.

    regularization : lambda > 0; 1e-6 in Joulani et al. (2015), Section 5.

    Source: Shalev-Shwartz et al. (2011).
    """
    return CompiledLearner(
        name=f"pegasos({n_features}, regularization={regularization})",
        n_features=n_features,
        initial=np.zeros(n_features + 1),
        constants=np.array([regularization]),
        update_kernel=_pegasos_update,
        loss_kernel=_pegasos_loss,
        reads_y=True,
        labels=(-1, 1),
    )


@_jit
def _margin(states, at, X, y, row):
    """y V.x, which is lambda (t - 1) times the margin at row t."""
    total = 0.0
    for j in range(X.shape[1]):
        total += states[at, j] * X[row, j]
    return y[row] * total


@_jit
def _pegasos_update(states, at, constants, X, y, rows, start, stop):
    d = X.shape[1]
    seen = states[at, d]
    for i in range(start, stop):
        row = rows[i]
        margin = _margin(states, at, X, y, row)
        if margin < constants[0] * seen or seen == 0.0:  # w_1 = 0 violates every margin
            for j in range(d):
                states[at, j] += y[row] * X[row, j]
        seen += 1.0
    states[at, d] = seen


@_jit
def _pegasos_loss(states, at, constants, X, y, start, stop, out):
    for i in range(start, stop):
        out[i] = 1.0 if _margin(states, at, X, y, i) <= 0.0 else 0.0


@declared
def lsqsgd(n_features: Features, step: Positive) -> CompiledLearner:
    """Train least squares by robust stochastic approximation; loss: squared error.

        w_(t+1) = P(w_t - alpha 2 (w_t.x_t - y_t) x_t),    w_1 = 0,

    P the projection on the unit ball; the model is the mean of w_1, ..., w_t. State: w (d,), the
    sum of iterates (d,), then t.

    step : alpha > 0; n^(-1/2) for n rows in Joulani et al. (2015), Section 5.

    Source: Nemirovski et al. (2009), Section 2.2.
    """
    return CompiledLearner(
        name=f"lsqsgd({n_features}, step={step:.3g})",
        n_features=n_features,
        initial=np.zeros(2 * n_features + 1),
        constants=np.array([step]),
        update_kernel=_lsqsgd_update,
        loss_kernel=_lsqsgd_loss,
        reads_y=True,
    )


@_jit
def _lsqsgd_update(states, at, constants, X, y, rows, start, stop):
    d = X.shape[1]
    for i in range(start, stop):
        row = rows[i]
        prediction = square = 0.0
        for j in range(d):
            prediction += states[at, j] * X[row, j]
        slope = 2.0 * constants[0] * (y[row] - prediction)
        for j in range(d):
            states[at, d + j] += states[at, j]
            states[at, j] += slope * X[row, j]
            square += states[at, j] * states[at, j]
        if square > 1.0:
            shrink = 1.0 / np.sqrt(square)
            for j in range(d):
                states[at, j] *= shrink
    states[at, 2 * d] += stop - start


@_jit
def _lsqsgd_loss(states, at, constants, X, y, start, stop, out):
    d = X.shape[1]
    for i in range(start, stop):
        total = 0.0
        for j in range(d):
            total += states[at, d + j] * X[i, j]
        out[i] = (total / states[at, 2 * d] - y[i]) ** 2


@declared
def k_means(n_features: Features, n_clusters: Count) -> CompiledLearner:
    """Move the nearest of K centres, at first the first K rows, to the mean of all rows it has had.

    Loss: squared distance to the nearest centre (Joulani et al. 2015, Table 1). State: centres
    (K, d), their counts of rows (K,), rows seen. Source: Sculley (2010), for batches of one row.
    """
    if n_clusters > MOST // n_features:
        raise ValueError(f"n_clusters = {n_clusters} of {n_features} features: more than fit")
    return CompiledLearner(
        name=f"k_means({n_features}, n_clusters={n_clusters})",
        n_features=n_features,
        initial=np.zeros(n_clusters * (n_features + 1) + 1),
        constants=np.array([n_clusters], float),
        update_kernel=_k_means_update,
        loss_kernel=_k_means_loss,
    )


@_jit
def _nearest(states, at, constants, X, row):
    """(centre, squared distance) of the nearest of the centres that rows have begun."""
    d = X.shape[1]
    n_centres = min(int(constants[0]), int(states[at, -1]))
    best, least = 0, np.inf
    for centre in range(n_centres):
        square = 0.0
        for j in range(d):
            gap = states[at, centre * d + j] - X[row, j]
            square += gap * gap
        if square < least:
            best, least = centre, square
    return best, least


@_jit
def _k_means_update(states, at, constants, X, y, rows, start, stop):
    d = X.shape[1]
    n_clusters = int(constants[0])
    for i in range(start, stop):
        row = rows[i]
        centre = int(states[at, -1])
        if centre < 0 or centre >= n_clusters:  # a count in a damaged state may be negative
            centre, _ = _nearest(states, at, constants, X, row)
        count = states[at, n_clusters * d + centre] + 1.0
        states[at, n_clusters * d + centre] = count
        for j in range(d):
            states[at, centre * d + j] += (X[row, j] - states[at, centre * d + j]) / count
        states[at, -1] += 1.0


@_jit
def _k_means_loss(states, at, constants, X, y, start, stop, out):
    for i in range(start, stop):
        _, out[i] = _nearest(states, at, constants, X, i)


@declared
def histogram(
    lower: Corner, upper: Corner, n_bins: Count, pseudo_count: Positive = 0.5
) -> CompiledLearner:
    """Estimate f(x) = (c(b) + a) / ((n + a B) v), b the cell of x; loss: -log f(x) (Table 1).

    B = n_bins^d equal cells of volume v between lower (d,) and upper (d,); rows outside the box
    count in the cell nearest to them. State: the counts c (B,), then n. The order of rows does not
    matter: TreeCV is standard cross-validation. pseudo_count : a > 0, added to every cell.
    """
    if not (lower < upper).all():
        raise ValueError(f"lower {lower} < upper {upper} must hold, for each feature")
    if n_bins ** len(lower) > MOST:
        raise ValueError(f"{n_bins}^{len(lower)} cells: at most {MOST} fit into memory")
    width = (upper - lower) / n_bins
    log_volume = np.log(width).sum()
    return CompiledLearner(
        name=f"histogram({n_bins} bins)",
        n_features=len(lower),
        initial=np.zeros(n_bins ** len(lower) + 1),
        constants=np.concatenate([[n_bins, pseudo_count, log_volume], lower, 1.0 / width]),
        update_kernel=_histogram_update,
        loss_kernel=_histogram_loss,
    )


@njit(cache=True, nogil=True)
def _cell(constants, X, row):
    d = X.shape[1]
    n_bins = int(constants[0])
    cell = 0
    for j in range(d):
        place = np.floor((X[row, j] - constants[3 + j]) * constants[3 + d + j])
        cell = cell * n_bins + int(min(max(place, 0.0), n_bins - 1.0))
    return cell


@njit(cache=True, nogil=True)
def _histogram_update(states, at, constants, X, y, rows, start, stop):
    for i in range(start, stop):
        states[at, _cell(constants, X, rows[i])] += 1.0
    states[at, states.shape[1] - 1] += stop - start


@njit(cache=True, nogil=True)
def _histogram_loss(states, at, constants, X, y, start, stop, out):
    n_cells = states.shape[1] - 1
    pseudo_count = constants[1]
    total = np.log(states[at, n_cells] + pseudo_count * n_cells) + constants[2]
    for i in range(start, stop):
        out[i] = total - np.log(states[at, _cell(constants, X, i)] + pseudo_count)
