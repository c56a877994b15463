"""Models: frozen data and hyperparameters, no fitted state."""

from .crf import LinearChainCRF
from .crf_chains import CRFParams
from .families import FAMILIES, Family
from .glm import GLM, NoFiniteOptimum
from .hmm import HMM, AutoRegressiveHMM, GaussianHMM, HMMParams, NeuralHMM
from .mrf import EmptyState, HiddenMRF
from .mrf_em import EMFit, em
from .poisson_traffic import PoissonTraffic, TrafficParams
from .python_loop import PythonLoop
from .traffic_prior import TrafficPrior

__all__ = [
    "EMFit",
    "EmptyState",
    "CRFParams",
    "FAMILIES",
    "Family",
    "GLM",
    "AutoRegressiveHMM",
    "GaussianHMM",
    "HMM",
    "HMMParams",
    "HiddenMRF",
    "LinearChainCRF",
    "NeuralHMM",
    "NoFiniteOptimum",
    "PoissonTraffic",
    "PythonLoop",
    "TrafficParams",
    "TrafficPrior",
    "em",
]
