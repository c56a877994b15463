"""Many folds of a `HiddenMRF` at one point: each renews only the tables at and above the sites it leaves out."""

import threading

import numpy as np

from ...folds import weights as fold_weights
from ...inference.graph import updates


class SharedPoint:
    """F and its derivatives at one params (K,), fold after fold; with Hessians where `curved`."""

    def __init__(self, model, params, curved):
        self.model, self.curved, self.rates = model, curved, np.exp(params)
        self.density, self.slopes = (
            model.log_densities(params),
            model.counts[:, None] - np.exp(params),
        )
        self.whole = model.scheme(np.ones(model.n_sites), model.edges)
        self.baseline = updates.Baseline(
            *model.potentials(self.density, self.whole),
            self._sums(self.whole.observation),
            model.elimination,
            model.n_states if curved else 0,
        )
        self.rooms = threading.local()

    @property
    def accurate(self):
        """Whether the folds may be asked for."""
        return self.baseline.accurate

    def _sums(self, observation):
        """S_k of `mrf_fast` and, for Hessians, sum_t w_t 1{z_t = k} of all states but the last."""
        one, kept = np.eye(self.model.n_states)[:, None, :], observation[:, None]
        sums = [one * (kept * self.slopes)] + ([one[:-1] * kept] if self.curved else [])
        return np.concatenate(sums)

    def _room(self):
        """Tables to write to: one set a thread."""
        if not hasattr(self.rooms, "tables"):
            k = self.model.n_states
            shape = (2 * k - 1, k) if self.curved else (k, 0)
            self.rooms.tables = updates.empty_tables(self.model.elimination, *shape)
        return self.rooms.tables

    def fold(self, fold):
        """(F, dF/dparams (K,), d2F/dparams2 (K, K)) at the fold's weights, the last None unless curved.

        None for all where products come near to underflow.
        """
        factor = self.model.scheme(fold_weights(self.model.n_sites, fold), self.model.edges)
        sites = np.flatnonzero(factor.observation != self.whole.observation)
        ends = self.model.edges[factor.edge != self.whole.edge]
        potentials = self.model.potentials(self.density, factor)
        found = self.baseline.changed(
            *potentials, self._sums(factor.observation), sites, ends, self._room()
        )
        return found and self._derivatives(*found, factor.observation.sum())

    def _derivatives(self, log_z, mean, covariance, n_kept):
        k = self.model.n_states
        if not self.curved:
            return -log_z, -mean, None
        occupancy = np.append(mean[k:], n_kept - mean[k:].sum())
        return -log_z, -mean[:k], np.diag(self.rates * occupancy) - covariance
