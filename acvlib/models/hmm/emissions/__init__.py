"""Emission models of the HMM family, and what an HMM asks of one.

The parameters (E,) of an emission are n_shared ones of all states, then d of each state; methods
take those of each state, the shared ones first: states (K, e), e = n_shared + d. A new emission is
one file: a class like `Emission`, one like `Point` and one like `Information`; see `gaussian` for a
small example.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from ..sequences import Frames
from .autoregressive import AutoRegression, AutoRegressionParams
from .gaussian import Gaussian, GaussianParams, Prior
from .network import NetworkParams, NeuralAutoRegression
from .scores import Layer, StatePairs

__all__ = [
    "AutoRegression",
    "AutoRegressionParams",
    "Emission",
    "Gaussian",
    "GaussianParams",
    "Information",
    "NetworkParams",
    "NeuralAutoRegression",
    "Point",
]


class Emission(Protocol):
    """p(x_t | z_t = k, the `order` frames before).

    An emission with a closed-form M-step also has `maximise(states, frames, mass (M, K))`, which
    gives new params (E,).
    """

    @property
    def order(self) -> int:
        """p: how many frames before are looked back at."""

    @property
    def n_shared(self) -> int:
        """How many parameters all states share."""

    def state_shape(self, n_channels: int) -> tuple[int, int]:
        """(r, q), d = r q: a state's parameters are r groups of q with the same information."""

    def unpack(self, states: np.ndarray, n_channels: int) -> NamedTuple:
        """Named parameters."""

    def pack(self, named: Any) -> np.ndarray:
        """The params (E,) of named ones: the inverse of `unpack`."""

    def prior(self, n_states: int, n_channels: int) -> Prior:
        """The prior of all params (E,)."""

    def start(self, frames: Frames, labels: np.ndarray, n_states: int) -> np.ndarray:
        """Params (E,) fitted to frames whose states (M,) are given."""

    def at(self, states: np.ndarray, frames: Frames) -> "Point":
        """Values and derivatives at these parameters."""


class Point(Protocol):
    """An emission at some parameters.

    log_density (M, K): log p(x_t | z_t = k, lags), 0 where missing; differentiable by autograd.
    """

    states: np.ndarray
    log_density: np.ndarray

    def layers(self, k: int, frames: np.ndarray) -> list[Layer]:
        """d log p of some frames in state k, in the order of its e parameters."""

    def information(self, groups: list[StatePairs]) -> "Information":
        """Minus the second derivatives of sum_p mass_p log p."""

    def mean_of(self, k: int) -> np.ndarray:
        """E[x_t | z_t = k, lags] in the units of the data, (M, R), or (R,) where all are alike."""

    def draw(self, k: int, frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """x_t of some frames in state k, (n, R), in the units of the data."""


class Information(Protocol):
    """Minus the second derivatives of sum_p mass_p log p over pairs (frame, state)."""

    def multiply(self, states: np.ndarray) -> np.ndarray:
        """Times B directions (B, K, e), of the same shape."""

    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """Semi-definite approximations (n_shared, n_shared) and (K, q, q), a preconditioner."""
