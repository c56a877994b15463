"""Fits, folds and exact refits that the tests of all methods share."""

import numpy as np
import pytest
from ladder_cases import SMALL, TIGHT, TRAFFIC

import acvlib as acv


@pytest.fixture(scope="session")
def fits():
    """Full fits of the small models, tight enough for differences of refits."""
    return {name: acv.fit(model, tolerance=TIGHT) for name, model in SMALL.items()}


@pytest.fixture(scope="session")
def traffic_fit():
    return acv.fit(TRAFFIC, tolerance=TIGHT)


@pytest.fixture(scope="session")
def traffic_folds():
    rng = np.random.default_rng(2)
    scattered = acv.folds.iid(800, 10, 20, rng, TRAFFIC.observed)
    blocks = acv.folds.contiguous(800, 5, 20, rng, TRAFFIC.observed)
    return acv.Folds([*scattered, *blocks])


@pytest.fixture(scope="session")
def traffic_exact(traffic_fit, traffic_folds):
    return acv.exact(traffic_fit, traffic_folds)
