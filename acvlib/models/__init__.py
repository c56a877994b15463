"""Models: frozen data and hyperparameters, no fitted state."""

from .families import FAMILIES, Family
from .glm import GLM, NoFiniteOptimum
from .hmm import GaussianHMM, HMMParams
from .mrf import HiddenMRF
from .poisson_traffic import PoissonTraffic, TrafficParams
from .python_loop import PythonLoop
from .traffic_prior import TrafficPrior

__all__ = [
    "FAMILIES",
    "Family",
    "GLM",
    "GaussianHMM",
    "HMMParams",
    "HiddenMRF",
    "NoFiniteOptimum",
    "PoissonTraffic",
    "PythonLoop",
    "TrafficParams",
    "TrafficPrior",
]
