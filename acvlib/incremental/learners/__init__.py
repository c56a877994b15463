"""Learners for `treecv`: four compiled ones, and whatever scikit-learn has with `partial_fit`."""

from .density import histogram
from .kmeans import k_means
from .linear import lsqsgd, pegasos
from .scikit import PartialFit
