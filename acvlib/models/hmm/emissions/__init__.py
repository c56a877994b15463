"""Emission models of the HMM family; `base.Emission` says what an HMM asks of one."""

from .base import Emission, normal
from .counts import Categorical, CategoricalParams, Poisson, PoissonParams
from .gaussian import (
    AutoRegression,
    AutoRegressionParams,
    CovarianceParams,
    Gaussian,
    GaussianParams,
)
from .mixture import Mixture, MixtureParams
from .network import NetworkParams, NeuralAutoRegression
from .regression import GLM, GLMParams
