"""Models: frozen data and hyperparameters, no fitted state."""

from .hmm import GaussianHMM, HMMParams
from .mrf import HiddenMRF
from .poisson_traffic import PoissonTraffic, TrafficParams
from .python_loop import PythonLoop
from .traffic_prior import TrafficPrior

__all__ = ["GaussianHMM", "HMMParams", "HiddenMRF", "PoissonTraffic", "PythonLoop", "TrafficParams", "TrafficPrior"]
