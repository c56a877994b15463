"""Settings of all tests, and what they share: hypothesis draws the same examples in every run."""

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """Tests already run on all cores: threads of BLAS would wait for each other."""
    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture
def rng():
    """A generator of the test's own: what it draws does not depend on the tests before it."""
    return np.random.default_rng(0)
