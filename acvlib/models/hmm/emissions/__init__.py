"""Emission models of the HMM family: priors, densities, and their derivatives at given parameters.

An emission has `order`, `n_shared` (its first parameters, which all states share), `n_params`, `state_params`,
`unpack`, `log_densities`, `minus_log_prior` (differentiable by autograd), `prior_derivatives`, `start`, where there is
a closed-form M-step `maximise`, and `at(params, frames, n_states)`: values, with `gradient` and `linearise`.
"""

from .autoregressive import AutoRegression, AutoRegressionParams
from .gaussian import Gaussian, GaussianParams
from .network import NetworkParams, NeuralAutoRegression

__all__ = [
    "AutoRegression",
    "AutoRegressionParams",
    "Gaussian",
    "GaussianParams",
    "NetworkParams",
    "NeuralAutoRegression",
]
