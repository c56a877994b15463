"""LSQSGD: least squares by robust stochastic approximation (Nemirovski et al. 2009, Section 2.2).

    w_(t+1) = P(w_t - alpha 2 (w_t.x_t - y_t) x_t),    w_1 = 0,

P the projection on the unit ball; the model is the mean of w_1, ..., w_t, the iterates whose gradients were
taken. State: w (d,), the sum of iterates (d,), then t.
"""

from functools import partial

import numpy as np
from numba import njit

from ..protocol import CompiledLearner
from .pegasos import FASTMATH, check_features

_jit = njit(cache=True, nogil=True, fastmath=FASTMATH)


def lsqsgd(n_features, step):
    """Averaged projected SGD for least squares; loss: squared error.

    step: alpha > 0; n^(-1/2) for n rows in Joulani et al. (2015), Section 5.
    """
    if not step > 0:
        raise ValueError(f"step = {step}: must be positive")
    check = partial(_check, n_features=n_features)
    name, initial = f"lsqsgd({n_features}, step={step:.3g})", np.zeros(2 * n_features + 1)
    return CompiledLearner(name, initial, np.array([step], float), _update, _loss, check)


def _check(X, y, n_features):
    check_features(X, n_features)
    if y is None:
        raise ValueError("the learner needs targets y")


@_jit
def _update(states, at, constants, X, y, rows, start, stop):
    d = X.shape[1]
    for i in range(start, stop):
        row = rows[i]
        prediction = 0.0
        for j in range(d):
            prediction += states[at, j] * X[row, j]
        slope = 2.0 * constants[0] * (y[row] - prediction)
        square = 0.0
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
def _loss(states, at, constants, X, y, start, stop, out):
    d = X.shape[1]
    for i in range(start, stop):
        total = 0.0
        for j in range(d):
            total += states[at, d + j] * X[i, j]
        out[i] = (total / states[at, 2 * d] - y[i]) ** 2
