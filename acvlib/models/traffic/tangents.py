"""How the score of two states on a chain moves with each observation's weight."""

import numpy as np

from ...inference.two_state import TO0, TO1, jit
from .emission import WIDTH


@jit
def score_tangents(classes, weights, messages, transition, quiet, ratio, contrast):
    """d2 log Z / dw_t dparams (T, WIDTH), from the `Smoothed.messages` of a fold.

    quiet and ratio (n_classes, WIDTH): gradients of log emission 0, and of the logarithm of the
    ratio of both emissions, whose values are contrast (n_classes,); transition (2, 2).
    Source: Louis (1982), by the tangents of the forward and of the backward log-odds.
    """
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    cross = np.empty((len(classes), WIDTH))
    x = np.zeros(WIDTH)  # of the forward log-odds
    x[TO0] = -stay0
    x[TO1] = stay1
    for t in range(len(classes)):
        p0 = messages[t, 0]
        p1 = messages[t, 1]
        inverse = 1.0 / ((stay0 * p0 + leave1 * p1) * (leave0 * p0 + stay1 * p1))
        slope = (stay1 - leave0) * p0 * p1 * inverse
        for i in range(WIDTH):
            x[i] = slope * x[i] + weights[t] * ratio[classes[t], i]
        x[TO0] -= p0 * stay0 * leave0 * inverse
        x[TO1] += p1 * stay1 * leave1 * inverse
        for i in range(WIDTH):
            cross[t, i] = x[i]
    x[:] = 0.0  # of the backward log-odds
    for t in range(len(classes) - 1, -1, -1):
        c = classes[t]
        p0, p1, v0, v1 = messages[t]
        gamma = (leave0 * p0 + stay1 * p1) * v1
        spread = gamma * (stay0 * p0 + leave1 * p1) * v0
        enter = leave0 * v1 / (stay0 * v0 + leave0 * v1)
        remain = stay1 * v1 / (leave1 * v0 + stay1 * v1)
        for i in range(WIDTH):
            d_gamma = spread * (cross[t, i] + x[i])
            cross[t, i] = quiet[c, i] + gamma * ratio[c, i] + contrast[c] * d_gamma
            x[i] = (remain - enter) * (x[i] + weights[t] * ratio[c, i])
        x[TO0] += enter - leave0
        x[TO1] += remain - stay1
    return cross
