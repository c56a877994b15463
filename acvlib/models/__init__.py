"""Models: frozen data and hyperparameters, no fitted state."""

from ..trials import NoFiniteOptimum
from .crf import CRFParams, LinearChainCRF
from .glm import GLM
from .glm.families import FAMILIES, Family
from .hmm import HMM, ImpossibleSequence
from .hmm.families import (
    GLMHMM,
    AutoRegressiveHMM,
    CategoricalHMM,
    GaussianHMM,
    MixtureHMM,
    NeuralHMM,
    PoissonHMM,
)
from .hmm.parameters import HMMParams
from .mrf import EmptyState, HiddenMRF
from .pairwise import PairwiseLinear
from .semisupervised import SemiSupervised
from .semisupervised.energy import GraphAffinity, ManifoldEnergy, RBFAffinity
from .traffic import PoissonTraffic, TrafficParams
from .traffic.prior import TrafficPrior

__all__ = [
    "EmptyState",
    "CRFParams",
    "FAMILIES",
    "Family",
    "GLM",
    "GLMHMM",
    "GraphAffinity",
    "AutoRegressiveHMM",
    "CategoricalHMM",
    "GaussianHMM",
    "HMM",
    "HMMParams",
    "HiddenMRF",
    "ImpossibleSequence",
    "LinearChainCRF",
    "ManifoldEnergy",
    "MixtureHMM",
    "NeuralHMM",
    "NoFiniteOptimum",
    "PairwiseLinear",
    "PoissonHMM",
    "PoissonTraffic",
    "RBFAffinity",
    "SemiSupervised",
    "TrafficParams",
    "TrafficPrior",
]
