"""log p(x, z) of the traffic model and its derivatives, as a posterior of the states expects them.

The gradient is linear in what is expected, `event` and `statistics` of `two_state.Smoothed`.
"""

import numpy as np
from scipy.special import expit

from ...inference.two_state import N_PARAMS, TO0
from .emission import A, Emission


class CompleteData:
    """The chain at params (L, 11), with the summed weights total (n_classes, L) of the classes.

    scaled (2, n_classes, L): log-densities less their maximum in a class, `peak`; log_scale (L,):
    what the maxima add to log p(x); transition (2, 2, L); start (L,): P(z_0 = 1).
    """

    def __init__(self, emission: Emission, total: np.ndarray, n_moves: int):
        self.emission = emission
        self.total = total
        self.n_moves = n_moves
        self.peak = emission.log_density.max(axis=0)
        self.scaled = emission.log_density - self.peak
        self.log_scale = (total * self.peak).sum(axis=0)
        logits = emission.params[:, TO0:].T
        self.stay = expit(logits)
        self.leave = expit(-logits)
        self.transition = np.array([[self.stay[0], self.leave[0]], [self.leave[1], self.stay[1]]])
        log_leave = -np.logaddexp(0.0, logits)
        self.start = expit(log_leave[0] - log_leave[1])  # both may have underflowed

    def gradient(self, event: np.ndarray, statistics: np.ndarray, whole: float = 1.0) -> np.ndarray:
        """Expected gradient (11, L); whole = 0 takes off what is not linear in the expected."""
        first, last, entered, in_event = statistics
        left = entered - (last - first)
        quiet = whole * self.n_moves - in_event
        surplus = first - whole * self.start
        to0 = quiet * self.leave[0] - entered - surplus * self.stay[0]
        to1 = in_event * self.leave[1] - left + surplus * self.stay[1]
        of_emission = self.emission.gradient(whole * self.total, event)
        return np.concatenate([of_emission, [to0, to1]])

    def hessian(self, event: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Expected Hessian (11, 11, L)."""
        first, _, _, in_event = statistics
        surplus = first - self.start
        of_rates, *others = self.emission.second(self.total, event)
        hessian = np.zeros((N_PARAMS, N_PARAMS, len(first)))
        hessian[:TO0, A:TO0] = np.stack(others, axis=1)
        hessian[A:TO0, :A] = hessian[:A, A:TO0].swapaxes(0, 1)
        hessian[range(A), range(A)] = of_rates[:A]
        score = np.stack([-self.stay[0], self.stay[1]])  # of logit P(z_0 = 1)
        hessian[TO0:, TO0:] = -self.start * (1.0 - self.start) * score[:, None] * score
        moves = np.stack([self.n_moves - in_event + surplus, in_event - surplus])
        hessian[range(TO0, N_PARAMS), range(TO0, N_PARAMS)] -= self.stay * self.leave * moves
        return hessian
