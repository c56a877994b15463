"""Incremental learners for `treecv`: four compiled ones, and whatever scikit-learn has with `partial_fit`."""

from .density import histogram
from .kmeans import k_means
from .lsqsgd import lsqsgd
from .pegasos import pegasos
from .scikit import PartialFit
