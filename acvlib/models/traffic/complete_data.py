"""Expected derivatives of log p(x, z), for the hidden states' posterior: what EM would maximise.

The last axis of every table is the lane: one parameter vector each.
"""

import numpy as np
from scipy.special import expit

from .emission import N_PARAMS, TO0, CountClasses, Emission


class CompleteData:
    """The chain at params (L, 11), with the summed weights total (n_classes, L) of the classes.

    scaled (2, n_classes, L): log-densities less their maximum in a class; log_scale (L,): what the
    maxima add to log p(x); transition (2, 2, L). What is expected comes in as `event` and
    `statistics` of `two_state.Smoothed`.
    """

    def __init__(self, classes: CountClasses, params: np.ndarray, total: np.ndarray):
        self.emission = Emission(classes, params)
        self.total = total
        self.n_moves = len(classes.of_site)
        self.peak = self.emission.log_density.max(axis=0)
        self.scaled = self.emission.log_density - self.peak
        self.log_scale = (total * self.peak).sum(axis=0)
        self.stay = expit(params[:, TO0:].T)
        self.leave = expit(-params[:, TO0:].T)
        self.transition = np.array([[self.stay[0], self.leave[0]], [self.leave[1], self.stay[1]]])
        self.start = self.leave[0] / self.leave.sum(axis=0)

    def gradient(self, event: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Expected gradient (11, L)."""
        first, last, entered, in_event = statistics
        left = entered - (last - first)
        quiet = self.n_moves - in_event
        surplus = first - self.start
        of_stay0 = quiet * self.leave[0] - entered - surplus * self.stay[0]
        of_stay1 = in_event * self.leave[1] - left + surplus * self.stay[1]
        of_emission = self.emission.gradient(self.total, event)
        return np.concatenate([of_emission, of_stay0[None], of_stay1[None]])

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
