"""Models: frozen data and hyperparameters, no fitted state."""

from .crf import LinearChainCRF
from .crf.chains import CRFParams
from .genomics import GeneClusters, GenomicsParams
from .genomics.checks import EmptyCluster, SingularRegression
from .genomics.spline import spline_basis
from .glm import GLM, NoFiniteOptimum
from .glm.families import FAMILIES, Family
from .hmm import HMM, AutoRegressiveHMM, GaussianHMM, HMMParams, NeuralHMM
from .mrf import EmptyState, HiddenMRF
from .mrf.em import EMFit, em
from .pairwise import PairwiseLinear, contrastive, ranking
from .semisupervised import SemiSupervised, kernel_form
from .semisupervised.affinity import GraphAffinity, RBFAffinity, median_square_distance
from .semisupervised.energy import ManifoldEnergy
from .semisupervised.neighbours import neighbour_affinity
from .traffic import PoissonTraffic, TrafficParams
from .traffic.prior import TrafficPrior

__all__ = [
    "EMFit",
    "EmptyCluster",
    "EmptyState",
    "CRFParams",
    "FAMILIES",
    "Family",
    "GLM",
    "GeneClusters",
    "GraphAffinity",
    "GenomicsParams",
    "AutoRegressiveHMM",
    "GaussianHMM",
    "HMM",
    "HMMParams",
    "HiddenMRF",
    "LinearChainCRF",
    "ManifoldEnergy",
    "NeuralHMM",
    "NoFiniteOptimum",
    "PairwiseLinear",
    "PoissonTraffic",
    "RBFAffinity",
    "SemiSupervised",
    "SingularRegression",
    "TrafficParams",
    "TrafficPrior",
    "contrastive",
    "em",
    "kernel_form",
    "median_square_distance",
    "neighbour_affinity",
    "ranking",
    "spline_basis",
]
