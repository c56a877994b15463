"""The HMMs by name: one call for each kind of emission."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import HMM
from .emissions import AutoRegression, Gaussian, NeuralAutoRegression


def GaussianHMM(
    x: np.ndarray,
    n_states: int,
    mean_scale: float = 100.0,
    variance_prior: tuple[float, float] = (1.0, 0.01),
    **settings: Any,
) -> HMM:
    """Emissions Normal(mean_k, diag(sd_k^2)) of x (T, R) or (T,); sites are its time steps."""
    return HMM([x], n_states, Gaussian(mean_scale, variance_prior), "steps", **settings)


def AutoRegressiveHMM(
    sequences: Sequence[np.ndarray], n_states: int, order: int = 1, **settings: Any
) -> HMM:
    """x_t ~ Normal(sum_m B_k^m x_t-m + b_k, sigma^2 I), Eq. 17; settings as in `HMM`."""
    return HMM(sequences, n_states, AutoRegression(order), **settings)


def NeuralHMM(
    sequences: Sequence[np.ndarray],
    n_states: int,
    order: int = 1,
    n_hidden: int = 12,
    **settings: Any,
) -> HMM:
    """A network of one hidden layer for each state, Eq. 18; settings as in `HMM`."""
    return HMM(sequences, n_states, NeuralAutoRegression(order, n_hidden), **settings)
