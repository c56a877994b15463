"""Emission models of the HMM family; `base.Emission` says what an HMM asks of one."""

from .autoregressive import AutoRegression, AutoRegressionParams
from .base import Emission
from .categorical import Categorical, CategoricalParams
from .covariance import CovarianceParams, FullGaussian
from .gaussian import Gaussian, GaussianParams
from .glm import GLM, GLMParams
from .mixture import Mixture, MixtureParams
from .network import NetworkParams, NeuralAutoRegression
from .poisson import Poisson, PoissonParams
from .priors import Dirichlet, LogRate, LogSd, Normal, Prior

__all__ = [
    "AutoRegression",
    "AutoRegressionParams",
    "Categorical",
    "CategoricalParams",
    "CovarianceParams",
    "Dirichlet",
    "Emission",
    "FullGaussian",
    "GLM",
    "GLMParams",
    "Gaussian",
    "GaussianParams",
    "LogRate",
    "LogSd",
    "Mixture",
    "MixtureParams",
    "NetworkParams",
    "NeuralAutoRegression",
    "Normal",
    "Poisson",
    "PoissonParams",
    "Prior",
]
