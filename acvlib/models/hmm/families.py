"""The HMMs by name: one call for each kind of emission."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import HMM
from .emissions import AutoRegression, Gaussian, NeuralAutoRegression
from .sequences import one_or_more


def GaussianHMM(
    x: Any,
    n_states: int,
    mean_scale: float = 100.0,
    variance_prior: tuple[float, float] = (1.0, 0.01),
    **settings: Any,
) -> HMM:
    """Emissions Normal(mean_k, diag(sd_k^2)); sites are time steps.

    Parameters
    ----------
    x: one sequence (T, R) or (T,), a list of sequences, or (X, lengths), X (sum of lengths, R). A
        list of 1-d arrays means sequences of one channel, of equal length or not. Frames that are
        nan or masked are missing.
    mean_scale, variance_prior: see `emissions.Gaussian`.
    settings: as in `HMM`.
    """
    emission = Gaussian(mean_scale, variance_prior)
    return HMM(one_or_more(x), n_states, emission, **{"sites": "steps", **settings})


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
