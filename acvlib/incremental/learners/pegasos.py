"""PEGASOS (Shalev-Shwartz et al. 2011): a linear support vector machine, one subgradient step a row.

With lambda the regularisation and w_1 = 0, row t takes w_t to

    w_(t+1) = (1 - 1/t) w_t + [y_t w_t.x_t < 1] y_t x_t / (lambda t),

so that V_t = lambda t w_(t+1) is the plain sum of y x over the rows that violated the margin: a row costs one
dot product, and an addition if it violates. State: V (d,), then t.
"""

from functools import partial

import numpy as np
from numba import njit

from ..protocol import CompiledLearner

# Sums may be reordered, which lets the dot product use wide registers; always in the same way.
FASTMATH = {"reassoc", "contract", "nsz"}
_jit = njit(cache=True, nogil=True, fastmath=FASTMATH)


def pegasos(n_features, regularization=1e-6):
    """The last hypothesis of PEGASOS, without bias and without projection; loss: misclassification, 0 or 1.

    Labels are -1 and 1. regularization: lambda > 0; 1e-6 in Joulani et al. (2015), Section 5.
    """
    if not regularization > 0:
        raise ValueError(f"regularization = {regularization}: must be positive")
    check = partial(_check, n_features=n_features)
    name = f"pegasos({n_features}, regularization={regularization})"
    initial, constants = np.zeros(n_features + 1), np.array([regularization], float)
    return CompiledLearner(name, initial, constants, _update, _loss, check)


def _check(X, y, n_features):
    check_features(X, n_features)
    if y is None:
        raise ValueError("the learner needs labels y of -1 and 1")
    wrong = np.abs(y) != 1.0
    if wrong.any():
        raise ValueError(f"label {y[wrong][0]:g} of row {np.argmax(wrong)}: labels are -1 and 1")


def check_features(X, n_features):
    """ValueError unless X has n_features columns."""
    if X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, and the learner {n_features}")


@_jit
def _margin(states, at, X, y, row):
    """y V.x, which is lambda (t - 1) times the margin at row t."""
    total = 0.0
    for j in range(X.shape[1]):
        total += states[at, j] * X[row, j]
    return y[row] * total


@_jit
def _update(states, at, constants, X, y, rows, start, stop):
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
def _loss(states, at, constants, X, y, start, stop, out):
    for i in range(start, stop):
        out[i] = 1.0 if _margin(states, at, X, y, i) <= 0.0 else 0.0
