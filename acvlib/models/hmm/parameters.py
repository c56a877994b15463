"""The params of an HMM: one flat vector, as named arrays and as rows of the chain and of states."""

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np

from ...checks import check_kind
from ...model import checked
from .simplex import Simplex


class HMMParams(NamedTuple):
    """initial (K,), transition (K, K) with rows that sum to 1, emission: its named parameters."""

    initial: np.ndarray
    transition: np.ndarray
    emission: Any


class Parameters:
    """Methods of an `HMM`: params (D,) and what they are made of.

    Before what is fixed is left out: log weights (K + 1, K) of the chain's rows, see `simplex`, the
    emission's shared parameters, and d of each state.
    """

    @cached_property
    def chain_prior(self: Any) -> Simplex:
        """The prior of initial and transition probabilities, and which of them are fixed."""
        return Simplex((self.n_states + 1, self.n_states), self.concentration, self.fixed)

    @property
    def n_chain(self: Any) -> int:
        """How many log weights come first."""
        return int(self.chain_prior.kept.sum())

    @property
    def n_nuisance(self: Any) -> int:
        """How many parameters come before those of single states."""
        return self.n_chain + self.emission.n_shared

    @cached_property
    def n_params(self: Any) -> int:
        """D."""
        n_front = self.n_nuisance if self.held is None else 0
        return n_front + int(self.kept_in_states.sum())

    @cached_property
    def kept_in_states(self: Any) -> np.ndarray:
        """(K, d) which of the states' own parameters are free."""
        kept = self.emission.kept(self.n_states, self.n_channels)
        size = np.prod(self.emission.state_shape(self.n_channels))
        return np.ones((self.n_states, size), bool) if kept is None else kept

    @cached_property
    def _places(self: Any):
        """Of log weights (K + 1, K) their places among the chain's parameters, likewise (K, d).

        What is fixed has place -1, where a 0 is appended.
        """
        both = self.chain_prior.kept, self.kept_in_states
        return [np.where(kept, np.cumsum(kept).reshape(kept.shape) - 1, -1) for kept in both]

    @checked
    def hold(self: Any, params: np.ndarray) -> tuple[Any, np.ndarray]:
        """Hold what is not of single states at params: (the model so held, the params still free).

        As the paper counts: Theta = (B, b), D = K R (p R + 1) in Eq. 17.
        """
        if self.held is not None:
            raise ValueError("something is held already: hold() the whole model's params")
        return replace(self, held=params[: self.n_nuisance]), params[self.n_nuisance :]

    def split(self: Any, params: Any) -> tuple[Any, Any]:
        """Log weights (K + 1, K) of the chain, rows (K, e) of the states, shared ones first.

        Of directions (B, D), along which what is held does not move, both have (B,) in front.
        """
        *lead, _ = params.shape
        if self.held is not None:
            front = np.zeros((*lead, self.n_nuisance)) if lead else self.held
            params = anp.concatenate([front, params], axis=-1)
        chain, states = self._places
        zero = np.zeros((*lead, 1))
        front = anp.concatenate([params[..., : self.n_chain], zero], axis=-1)
        own = params[..., self.n_nuisance :]
        if (states < 0).any():
            own = anp.concatenate([own, zero], axis=-1)[..., states]
        else:  # many times as fast
            own = anp.reshape(own, (*lead, *states.shape))
        shared = params[..., None, self.n_chain : self.n_nuisance] * np.ones((self.n_states, 1))
        return front[..., chain], anp.concatenate([shared, own], axis=-1)

    def join(self: Any, chain: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Derivatives by params (..., D) from those by what `split` gives."""
        *lead, _, _ = rows.shape
        n_shared = self.emission.n_shared
        own = rows[..., n_shared:].reshape((*lead, -1))
        _, states = self._places
        if (states < 0).any():
            own = own[..., np.flatnonzero(states >= 0)]
        if self.held is not None:
            return own
        front = chain[..., self.chain_prior.kept]
        return np.concatenate([front, rows[..., :n_shared].sum(axis=-2), own], axis=-1)

    @checked
    def unpack(self: Any, params: np.ndarray) -> HMMParams:
        """Named, constrained parameters, in the units of the data."""
        chain, rows = self.split(params)
        p = anp.exp(self.chain_prior.log_p(chain))
        return HMMParams(p[0], p[1:], self.emission.unpack(rows, self.n_channels))

    def pack(self: Any, named: HMMParams) -> np.ndarray:
        """The params (D,) of named ones; what is held is left out."""
        check_kind("named", named, HMMParams)
        _check_shapes("named", named, self.unpack(np.zeros(self.n_params)))
        rows = np.vstack([named.initial, named.transition])
        return self.packed(rows, self.emission.pack(named.emission))

    def packed(self: Any, p: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The params of rows of probabilities (K + 1, K) and rows (K, e) of the states."""
        weights = self.chain_prior.weights(p, "initial and transition")
        n_shared = self.emission.n_shared
        _, states = self._places
        own = rows[:, n_shared:][states >= 0]
        front = np.append(weights[self.chain_prior.kept], rows[0, :n_shared])
        packed = np.append(front, own)
        if not np.isfinite(packed).all():
            raise ValueError(f"{len(packed)} finite params are needed: of sds and rates above 0")
        return packed[-self.n_params :]


def _check_shapes(name, given, like):
    """Raise ValueError unless named arrays have the shapes of others."""
    if hasattr(like, "_fields"):
        for field in like._fields:
            _check_shapes(f"{name}.{field}", getattr(given, field, None), getattr(like, field))
    elif np.shape(given) != np.shape(like):
        raise ValueError(f"{name} {np.shape(given)}: must be {np.shape(like)}")
