"""The forward recursion as a Python loop taped by autograd:
how the paper's own experiments were run.

Slow on purpose: the baseline of Table 2's last column,
and an oracle that shares no kernel with the rest.
"""

from dataclasses import dataclass

import autograd.numpy as np

from acvlib.inference import hidden_chain


@dataclass(frozen=True)
class PythonLoop:
    """The same objective as `model`, a hidden Markov model of this package, by Eq. 9."""

    model: object

    @property
    def n_sites(self):
        return self.model.n_sites

    def objective(self, params, weights):
        """F = -log p(x; params, weights) - log p(params); 10 microseconds of tape a site."""
        densities, log_chain = self.model.log_densities(params), self.model.log_chain(params)
        node, edge = hidden_chain.potentials(self.model.scheme, weights, densities, *log_chain)
        alpha = node[0]
        for t in range(1, self.n_sites):
            alpha = _logsumexp(alpha[:, None] + edge[t - 1]) + node[t]
        return -_logsumexp(alpha[:, None])[0] - self.model.log_prior(params)


def _logsumexp(table):
    peak = np.max(table, axis=0)
    return peak + np.log(np.sum(np.exp(table - peak), axis=0))
