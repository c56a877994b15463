"""Label sequences of tokens at some params: log Z, and its first and second derivatives."""

import numpy as np

from ...inference.smoothing import factors, smooth, transition_counts
from ...inference.tangent import link_variances, tangent


class Paths:
    """The label sequences of some tokens, all of them or those of known labels, at some params.

    values (N,): log sum exp(scores of all that agree with what is known) - score of the labels.
    """

    def __init__(self, tokens, parts, known=None):
        self.tokens = tokens
        scores = tokens.matrix @ parts.states
        own = scores[np.arange(len(scores)), tokens.tags]
        tags = tokens.tags
        own[tokens.links] += parts.transitions[tags[tokens.links], tags[tokens.links + 1]]
        if known is not None:
            with np.errstate(divide="ignore"):
                scores = scores + np.log(known)
        none = np.zeros(scores.shape[1])
        density = factors(scores)
        self.smoothed = smooth(density, tokens.starts, none, parts.transitions, none)
        self.values = self.smoothed.log_z - np.add.reduceat(own, tokens.starts[:-1])

    def gradient(self, coefficients):
        """sum_n coefficients_n dvalues_n, as (attributes x labels, transitions)."""
        tags = self.tokens.tags
        links = self.tokens.links
        each = np.repeat(coefficients, self.tokens.lengths)
        excess = self.smoothed.gamma * each[:, None]
        excess[np.arange(len(tags)), tags] -= each
        moves = transition_counts(self.smoothed, self.tokens.starts, coefficients)
        np.subtract.at(moves, (tags[links], tags[links + 1]), each[links])
        return self.tokens.transposed @ excess, moves

    def multiply(self, coefficients, parts):
        """sum_n coefficients_n d2values_n times the vector of these parts."""
        field = self.tokens.matrix @ parts.states
        posterior = self.smoothed[1:5]
        starts = self.tokens.starts
        excess, moves = tangent(posterior, starts, coefficients, field, parts.transitions)
        return self.tokens.transposed @ excess, moves

    def variances(self, coefficients):
        """The diagonal of the same, but for covariances between tokens."""
        gamma = self.smoothed.gamma
        each = np.repeat(coefficients, self.tokens.lengths)[:, None]
        states = self.tokens.squared @ (each * gamma * (1.0 - gamma))
        return states, link_variances(self.smoothed[1:5], self.tokens.starts, coefficients)
