"""The parameters of an HMM: one flat vector, its parts, and what is held of it."""

from dataclasses import replace
from typing import Any

import autograd.numpy as anp
import numpy as np

from ...checks import check_kind
from ...protocol import checked
from .posterior import HMMParams
from .simplex import log_probabilities, log_ratios


class Parameters:
    """Methods of an `HMM`: params (D,) and what they are made of."""

    @property
    def n_chain(self: Any) -> int:
        """How many log ratios come first."""
        return self.n_states**2 - 1

    @property
    def n_nuisance(self: Any) -> int:
        """How many parameters come before those of single states."""
        return self.n_chain + self.emission.n_shared

    @property
    def n_params(self: Any) -> int:
        """D."""
        repeats, size = self.emission.state_shape(self.n_channels)
        n_front = self.n_nuisance if self.held is None else 0
        return n_front + self.n_states * repeats * size

    @checked
    def hold(self: Any, params: np.ndarray) -> tuple[Any, np.ndarray]:
        """Hold what is not of single states at params: (the model so held, the params still free).

        As the paper counts: Theta = (B, b), D = K R (p R + 1) in Eq. 17.
        """
        if self.held is not None:
            raise ValueError("something is held already: hold() the whole model's params")
        return replace(self, held=params[: self.n_nuisance]), params[self.n_nuisance :]

    def whole(self: Any, params: np.ndarray) -> np.ndarray:
        """All parameters, with what is held in front; in rows of directions (B, D) that is 0."""
        if self.held is None:
            return params
        front = self.held if params.ndim == 1 else np.zeros((len(params), self.n_nuisance))
        return anp.concatenate([front, params], axis=-1)

    def split(self: Any, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log ratios (K + 1, K - 1), and (K, e) of the emission's states, shared ones first.

        Of directions (B, D) both have (B,) in front.
        """
        k = self.n_states
        whole = self.whole(params)
        leading = params.shape[:-1]
        chain = whole[..., : self.n_chain].reshape((*leading, k + 1, k - 1))
        shared = whole[..., None, self.n_chain : self.n_nuisance] * np.ones((k, 1))
        states = whole[..., self.n_nuisance :]
        states = states.reshape((*leading, k, states.shape[-1] // k))
        return chain, anp.concatenate([shared, states], axis=-1)

    def join(self: Any, chain: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Derivatives by params (..., D) from those by what `split` gives."""
        leading = states.shape[:-2]
        n_shared = self.emission.n_shared
        own = states[..., n_shared:].reshape((*leading, -1))
        if self.held is not None:
            return own
        shared = states[..., :n_shared].sum(axis=-2)
        return np.concatenate([chain.reshape((*leading, -1)), shared, own], axis=-1)

    @checked
    def unpack(self: Any, params: np.ndarray) -> HMMParams:
        """Named, constrained parameters."""
        p = anp.exp(self._log_rows(params))
        _, states = self.split(params)
        return HMMParams(p[0], p[1:], self.emission.unpack(states, self.n_channels))

    def pack(self: Any, named: HMMParams) -> np.ndarray:
        """The params (D,) of named ones; what is held is left out."""
        check_kind("named", named, HMMParams)
        rows = np.vstack([named.initial, named.transition])
        if rows.shape[1] != self.n_states or abs(rows.sum(axis=1) - 1.0).max() > 1e-6:
            raise ValueError(f"rows {rows.tolist()} must be {self.n_states} probabilities each")
        return self._packed(rows, self.emission.pack(named.emission))

    def _packed(self, rows, emission):
        packed = np.append(log_ratios(rows), emission)
        size = self.n_nuisance + self.n_states * np.prod(self.emission.state_shape(self.n_channels))
        if packed.shape != (size,) or not np.isfinite(packed).all():
            raise ValueError(f"{size} finite params are needed, of probabilities and sds above 0")
        return packed[-self.n_params :]

    def _log_rows(self, params):
        """Log probabilities (K + 1, K): initial, then transitions."""
        return log_probabilities(self.split(params)[0])
