"""Settings of all tests, and what they share: hypothesis draws the same examples in every run."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # tests run on all cores: threads would wait for each other

import numpy as np
import pytest
from hypothesis import settings
from ladder_cases import fits, traffic_exact, traffic_fit, traffic_folds

__all__ = ["fits", "traffic_exact", "traffic_fit", "traffic_folds"]  # fixtures of all methods

settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


@pytest.fixture
def rng():
    """A generator of the test's own: what it draws does not depend on the tests before it."""
    return np.random.default_rng(0)
