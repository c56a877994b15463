"""How posteriors of two states on a chain move with each parameter: second derivatives."""

import numpy as np

from ...inference.two_state import TO0, TO1, jit
from .emission import WIDTH


@jit
def tangents(classes, weights, messages, transition, quiet, ratio, contrast):
    """Derivatives in all parameters of what one weighting's `two_state.smooth` gives.

    d2 log Z / dw_t dparams (T, WIDTH), and the derivatives of `Smoothed.event` (n_classes, WIDTH)
    and of `Smoothed.statistics` (4, WIDTH), of which `messages` are the fold's.

    quiet and ratio (n_classes, WIDTH): gradients of log emission 0, and of the logarithm of the
    ratio of both emissions, whose values are contrast (n_classes,); transition (2, 2).
    Source: Louis (1982), by the tangents of the forward and of the backward log-odds.
    """
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    cross = np.zeros((len(classes) + 1, WIDTH))  # first the tangent of the forward log-odds
    cross[0, TO0] = -stay0
    cross[0, TO1] = stay1
    for t in range(len(classes)):
        p0 = messages[t, 0]
        p1 = messages[t, 1]
        inverse = 1.0 / ((stay0 * p0 + leave1 * p1) * (leave0 * p0 + stay1 * p1))
        slope = (stay1 - leave0) * p0 * p1 * inverse
        for i in range(WIDTH):
            cross[t + 1, i] = slope * cross[t, i] + weights[t] * ratio[classes[t], i]
        cross[t + 1, TO0] -= p0 * stay0 * leave0 * inverse
        cross[t + 1, TO1] += p1 * stay1 * leave1 * inverse
    x = np.zeros(WIDTH)  # the tangent of the backward log-odds
    event = np.zeros_like(ratio)
    last, moves, in_event = np.zeros((3, WIDTH))
    for t in range(len(classes) - 1, -1, -1):
        c = classes[t]
        p0, p1, v0, v1 = messages[t]
        reach = leave0 * p0 + stay1 * p1
        gamma = reach * v1
        spread = gamma * (stay0 * p0 + leave1 * p1) * v0
        came = leave0 * p0 / reach  # P(z_t-1 = 0 | z_t = 1, past)
        turn = gamma * came * stay1 * p1 / reach
        enter = leave0 * v1 / (stay0 * v0 + leave0 * v1)
        remain = stay1 * v1 / (leave1 * v0 + stay1 * v1)
        for i in range(WIDTH):
            change = spread * (cross[t + 1, i] + x[i])  # of gamma
            cross[t + 1, i] = quiet[c, i] + gamma * ratio[c, i] + contrast[c] * change
            event[c, i] += weights[t] * change
            in_event[i] += change
            moves[i] += came * change - turn * cross[t, i]
            x[i] = (remain - enter) * (x[i] + weights[t] * ratio[c, i])
        if t == len(classes) - 1:
            last[:] = in_event
        moves[TO0] -= turn * stay0
        moves[TO1] -= turn * leave1
        x[TO0] += enter - leave0
        x[TO1] += remain - stay1
    p0, p1, v0, v1 = messages[0]
    first = p0 * (stay0 * v0 + leave0 * v1) * p1 * (leave1 * v0 + stay1 * v1) * (cross[0] + x)
    return cross[1:], event, np.stack((first, last, moves, in_event + first - last))
