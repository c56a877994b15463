"""Emission models of the HMM family; `base.Emission` says what an HMM asks of one."""

from .base import Emission, normal
from .categorical import Categorical, CategoricalParams
from .channels import Channels
from .counts import NegativeBinomial, NegativeBinomialParams, Poisson, PoissonParams
from .gaussian import (
    AutoRegression,
    AutoRegressionParams,
    CovarianceParams,
    Gaussian,
    GaussianParams,
)
from .mixture import Mixture, MixtureParams
from .regression import GLM, GLMParams, NetworkParams, NeuralAutoRegression
