"""From smoothing statistics to the gradient and Hessian of log p(x) in the traffic model's parameters.

The last axis of every array is the lane: L parameter vectors, or L folds, at once. Class sums are
(n_classes, L): `total` counts the weighted sites of a class, `event` those of them expected in state 1.
Statistics (4, L) are P(z_0 = 1), P(z_T = 1), the moves 0 -> 1 and the sum of P(z_t = 1) over t = 0..T-1,
where site 0 is the unobserved stationary start.
"""

import numpy as np
from scipy.special import expit

from .emission import excess_moments

DIM, N_RATES, A, B, TO0, TO1 = 11, 7, 7, 8, 9, 10


def transitions(params):
    """P(j -> k) as (2, 2, L) from params (L, 11), each entry from its own logit, so that none loses digits."""
    stay, leave = expit(params[:, TO0:].T), expit(-params[:, TO0:].T)
    return np.array([[stay[0], leave[0]], [leave[1], stay[1]]])


def emission_law(params):
    """(rates (7, L), shape a (L,), b (L,)) of params (L, 11)."""
    return np.exp(params[:, :N_RATES]).T.copy(), np.exp(params[:, A]), np.exp(params[:, B])


class EmissionDerivatives:
    """Derivatives of a class's two log-densities in (log rate of its day, log a, log b).

    score0 (n_classes, L), score1 (3, n_classes, L); with curvature also second0 (n_classes, L) and
    second1 (3, 3, n_classes, L). State 1's follow from posterior moments of the excess (Louis 1982).
    """

    def __init__(self, classes, params, curvature=False):
        rates, self.a, self.b = emission_law(params)
        excess, digamma, *rest = excess_moments(rates, self.a, self.b, classes.counts, classes.days)
        self.of_day = (classes.days == np.arange(N_RATES)[:, None]).astype(float)
        self.rate = rates[classes.days]
        self.tilt = self.b / (1.0 + self.b)
        self.score0 = classes.counts[:, None] - self.rate
        growth = self.a * (digamma + np.log(self.tilt))
        self.score1 = np.stack(
            [self.score0 - excess, growth, self.a * (1 - self.tilt) - self.tilt * excess]
        )
        if curvature:
            self._add_curvature(excess, digamma, growth, *rest)

    def _add_curvature(self, excess, digamma, growth, square, product, digamma_square, trigamma):
        variance, covariance = square - excess**2, product - excess * digamma
        spread = digamma_square - digamma**2
        a, tilt = self.a, self.tilt
        self.second0 = -self.rate
        rate_a, rate_b, a_b = (
            -a * covariance,
            tilt * variance,
            a * (1 - tilt) - a * tilt * covariance,
        )
        a_a = growth + a**2 * (trigamma + spread)
        b_b = tilt**2 * variance - (a + excess) * tilt * (1 - tilt)
        rows = [[variance - self.rate, rate_a, rate_b], [rate_a, a_a, a_b], [rate_b, a_b, b_b]]
        self.second1 = np.array(rows)

    @property
    def ratio_score(self):
        """Gradient of log(p(x | 1) / p(x | 0)): (3, n_classes, L)."""
        ratio = self.score1.copy()
        ratio[0] -= self.score0
        return ratio

    def gradient(self, total, event):
        """Expected gradient of the weighted emissions, (11, L)."""
        gradient = np.zeros((DIM, total.shape[1]))
        gradient[:N_RATES] = self.of_day @ ((total - event) * self.score0 + event * self.score1[0])
        gradient[A], gradient[B] = (event * self.score1[1:]).sum(axis=1)
        return gradient

    def hessian(self, total, event):
        """Expected Hessian of the weighted emissions, (11, 11, L)."""
        hessian = np.zeros((DIM, DIM, total.shape[1]))
        second = event * self.second1
        days = np.arange(N_RATES)
        hessian[days, days] = self.of_day @ ((total - event) * self.second0 + second[0, 0])
        for k, at in ((1, A), (2, B)):
            hessian[:N_RATES, at] = hessian[at, :N_RATES] = self.of_day @ second[0, k]
        hessian[A : B + 1, A : B + 1] = second[1:, 1:].sum(axis=2)
        return hessian


def start_score(transition):
    """Gradient of logit P(z_0 = 1) in the two stay logits, (2, L), and P(z_0 = 1) (L,)."""
    leave0, leave1 = transition[0, 1], transition[1, 0]
    return np.stack([-transition[0, 0], transition[1, 1]]), leave0 / (leave0 + leave1)


def transition_gradient(transition, statistics, n_moves):
    """Gradient of log p(x) in the two stay logits, (2, L)."""
    first, last, moves01, event = statistics
    score, start = start_score(transition)
    moves10 = moves01 - (last - first)
    from_quiet = (n_moves - event) * transition[0, 1] - moves01
    from_event = event * transition[1, 0] - moves10
    return np.stack([from_quiet, from_event]) + (first - start) * score


def transition_hessian(transition, statistics, n_moves):
    """Expected Hessian of the log transitions and of the log start, (2, 2, L): the complete-data part."""
    first, _, _, event = statistics
    score, start = start_score(transition)
    spread = transition[[0, 1], [0, 1]] * transition[[0, 1], [1, 0]]
    diagonal = -spread * np.stack([n_moves - event, event]) + (first - start) * spread * np.array(
        [[-1.0], [1.0]]
    )
    return (
        diagonal[:, None] * np.eye(2)[:, :, None]
        - start * (1.0 - start) * score[:, None] * score[None]
    )


def score_variance(transition, first, outer, linear, tangent):
    """Var(score | x) (11, 11, L) from the parts that `lanes.curvature_lanes` returns."""
    variance = outer + outer.swapaxes(0, 1)
    variance[np.arange(DIM), np.arange(DIM)] -= outer[np.arange(DIM), np.arange(DIM)]
    for sign, at, part in ((-1.0, TO0, linear[0]), (1.0, TO1, linear[1])):
        variance[at] += sign * part[:-1]
        variance[:, at] += sign * part[:-1]
        variance[at, at] += part[-1]
    at_start = tangent.copy()
    at_start[TO0:] += start_score(transition)[0]
    return variance + first * (1.0 - first) * at_start[:, None] * at_start[None]
