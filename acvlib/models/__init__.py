"""Models: frozen data and hyperparameters, no fitted state."""

from .affinity import GraphAffinity, RBFAffinity, median_square_distance
from .crf import LinearChainCRF
from .crf_chains import CRFParams
from .families import FAMILIES, Family
from .genomics import GeneClusters, GenomicsParams
from .genomics_checks import EmptyCluster, SingularRegression
from .glm import GLM, NoFiniteOptimum
from .hmm import HMM, AutoRegressiveHMM, GaussianHMM, HMMParams, NeuralHMM
from .manifold import ManifoldEnergy
from .mrf import EmptyState, HiddenMRF
from .mrf_em import EMFit, em
from .neighbours import neighbour_affinity
from .pairwise import PairwiseLinear, contrastive, ranking
from .poisson_traffic import PoissonTraffic, TrafficParams
from .python_loop import PythonLoop
from .semisupervised import SemiSupervised, kernel_form
from .spline import spline_basis
from .traffic_prior import TrafficPrior

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
    "PythonLoop",
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
