"""Expected derivatives of log p(x, z), for the hidden states' posterior: what EM would maximise.

The last axis of every table is the lane: one parameter vector each.
"""

import numpy as np
from scipy.special import expit

from .emission import N_PARAMS, TO0, CountClasses, Emission

N_MOMENTS = 0, 2, 6  # of the excess, that derivatives of this order need


class CompleteData:
    """The chain at params (L, 11), with the summed weights total (n_classes, L) of the classes.

    scaled (2, n_classes, L): log-densities less their maximum in a class; log_scale (L,): what the
    maxima add to log p(x); transition (2, 2, L). What is expected comes in as `event` and
    `statistics` of `two_state.Smoothed`. order: of the highest derivative that is asked for.
    """

    def __init__(self, classes: CountClasses, params: np.ndarray, total: np.ndarray, order: int):
        self.emission = Emission(classes, params, N_MOMENTS[order])
        self.total = total
        self.n_moves = len(classes.of_site)
        log_density = self.emission.log_density
        self.peak = np.maximum(log_density[0], log_density[1])
        self.scaled = log_density - self.peak
        self.log_scale = (total * self.peak).sum(axis=0)
        logits = params[:, TO0:].T
        self.stay = expit(logits)
        self.leave = expit(-logits)
        self.transition = np.array([[self.stay[0], self.leave[0]], [self.leave[1], self.stay[1]]])
        log_leave = -np.logaddexp(0.0, logits)
        self.start = expit(log_leave[0] - log_leave[1])  # both may have underflowed

    def gradient(self, event: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Expected gradient (11, L)."""
        first, last, entered, in_event = statistics
        left = entered - (last - first)
        quiet = self.n_moves - in_event
        surplus = first - self.start
        gradient = np.empty((N_PARAMS, len(first)))
        gradient[:TO0] = self.emission.gradient(self.total, event)
        gradient[-2] = quiet * self.leave[0] - entered - surplus * self.stay[0]
        gradient[-1] = in_event * self.leave[1] - left + surplus * self.stay[1]
        return gradient

    def hessian(self, event: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Expected Hessian (11, 11, L)."""
        first, _, _, in_event = statistics
        quiet = self.n_moves - in_event
        surplus = first - self.start
        spread = self.stay * self.leave
        score = np.stack([-self.stay[0], self.stay[1]])  # of logit P(z_0 = 1)
        hessian = np.zeros((N_PARAMS, N_PARAMS, len(first)))
        hessian[:TO0, :TO0] = self.emission.hessian(self.total, event)
        hessian[TO0:, TO0:] = -self.start * (1.0 - self.start) * score[:, None] * score
        hessian[-2, -2] -= spread[0] * (quiet + surplus)
        hessian[-1, -1] -= spread[1] * (in_event - surplus)
        return hessian
