"""Learners for `treecv`: four compiled ones, and whatever scikit-learn has with `partial_fit`."""

from .linear import lsqsgd, pegasos
from .scikit import PartialFit
from .unsupervised import histogram, k_means
