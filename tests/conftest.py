"""Settings of all tests: hypothesis draws the same examples in every run, and takes the time it needs."""

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """Tests run on all cores as it is: threads of BLAS would wait for each other longer than they work."""
    with threadpool_limits(1, "blas"):
        yield
