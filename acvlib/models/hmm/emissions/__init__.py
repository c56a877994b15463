"""Emission models of the HMM family; `base.Emission` says what an HMM asks of one."""

from .base import Analytic, Emission
from .counts import Categorical, CategoricalParams, Poisson, PoissonParams
from .gaussian import (
    AutoRegression,
    AutoRegressionParams,
    CovarianceParams,
    Gaussian,
    GaussianParams,
)
from .glm import GLM, GLMParams
from .mixture import Mixture, MixtureParams
from .network import NetworkParams, NeuralAutoRegression
from .priors import log_rate, log_sd, normal

__all__ = [
    "Analytic",
    "AutoRegression",
    "AutoRegressionParams",
    "Categorical",
    "CategoricalParams",
    "CovarianceParams",
    "Emission",
    "GLM",
    "GLMParams",
    "Gaussian",
    "GaussianParams",
    "Mixture",
    "MixtureParams",
    "NetworkParams",
    "NeuralAutoRegression",
    "Poisson",
    "PoissonParams",
    "log_rate",
    "log_sd",
    "normal",
]
