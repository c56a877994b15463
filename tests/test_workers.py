"""The active number of workers is the one that is used, also where threads stand in for processes."""

import joblib
import pytest

from acvlib import workers


@pytest.mark.parametrize("make", [workers.threads, lambda: workers.parallel(prefer="threads"), workers.parallel])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_the_active_number_of_jobs_is_used(make, n_jobs):
    with joblib.parallel_config(n_jobs=n_jobs):
        assert make().n_jobs == n_jobs


def test_one_worker_unless_told_otherwise():
    assert workers.threads().n_jobs == 1
