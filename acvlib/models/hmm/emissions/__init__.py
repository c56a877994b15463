"""Emission models of the HMM family; `base.Emission` says what an HMM asks of one.

And in which order the states of one fit are those of another.
"""

from itertools import permutations
from typing import Any

import numpy as np

from .base import Emission, normal
from .counts import GLM, Categorical, CategoricalParams, GLMParams, Poisson, PoissonParams
from .gaussian import (
    AutoRegression,
    AutoRegressionParams,
    CovarianceParams,
    Gaussian,
    GaussianParams,
)
from .mixture import Mixture, MixtureParams
from .network import NetworkParams, NeuralAutoRegression

FEW_STATES = 6  # of which all orders are tried


def renumbered(chain: np.ndarray, order: Any) -> np.ndarray:
    """Rows of initial and transition probabilities (K + 1, K), the states in another order."""
    return np.vstack([chain[:1], chain[1:][order]])[:, order]


def best_order(costs: np.ndarray, fixed: np.ndarray | None) -> Any:
    """Which state (K,) each is to be, by costs (K, K), among orders that leave `fixed` as it is.

    All are tried of few states; of more the best of any order, if it does, else their own.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    k = len(costs)
    best = linear_sum_assignment(costs)[1]
    if fixed is None or np.array_equal(renumbered(fixed, best), fixed, equal_nan=True):
        return best
    orders = map(list, permutations(range(k)) if k <= FEW_STATES else [range(k)])
    same = [o for o in orders if np.array_equal(renumbered(fixed, o), fixed, equal_nan=True)]
    return min(same, key=lambda order: costs[np.arange(k), order].sum())
