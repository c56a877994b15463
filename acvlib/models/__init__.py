"""Models: frozen data and hyperparameters, no fitted state."""

from .poisson_traffic import PoissonTraffic, TrafficParams
from .traffic_prior import TrafficPrior

__all__ = ["PoissonTraffic", "TrafficParams", "TrafficPrior"]
