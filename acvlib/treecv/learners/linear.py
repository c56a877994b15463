"""Linear models trained by a stochastic subgradient step a row: PEGASOS and LSQSGD."""

import numpy as np
from numba import njit

from ...declared import Positive, declared
from ..learner import FASTMATH, CompiledLearner, Features

_jit = njit(cache=True, nogil=True, fastmath=FASTMATH)


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
        needs="labels y of -1 and 1",
        validate=_check_labels,
    )


def _check_labels(X, y):
    bad = abs(y) != 1.0
    if bad.any():
        row = np.argmax(bad)
        raise ValueError(f"label {y[row]:g} of row {row}: labels are -1 and 1")


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
        needs="targets y",
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
