"""The active number of workers is used, wherever they run; BLAS threads only where they pay."""

import time
from multiprocessing.pool import ThreadPool

import joblib
import pytest
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_info, threadpool_limits

from acvlib import parallel


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_the_active_number_of_jobs_is_used(n_jobs):
    with joblib.parallel_config(n_jobs=n_jobs):
        assert parallel.threads().n_jobs == n_jobs
    assert parallel.threads().n_jobs == 1  # unless told otherwise


@pytest.mark.parametrize("backend", ["multiprocessing", "loky", "threading", "sequential"])
def test_every_backend_of_joblib_computes(backend):
    with joblib.parallel_config(backend, n_jobs=2):
        done = parallel.spread(lambda i: divmod(i, 3), [(i,) for i in range(4)], None, "")
    assert done == [divmod(i, 3) for i in range(4)]


def test_a_pool_that_ctrl_c_stopped_midway_serves_nobody_again():
    with joblib.parallel_config("threading", n_jobs=2):
        backend, _ = get_active_backend()
        backend._pool = ThreadPool(2)
        backend._pool.close()  # where Ctrl-C meets `terminate`, the pool stays like this
        done = parallel.threads()(joblib.delayed(divmod)(i, 3) for i in range(5))
        assert done == [divmod(i, 3) for i in range(5)]
        backend._pool.terminate()


def test_ctrl_c_does_not_wait_for_pieces_that_have_not_begun():
    begun = []

    def work(i):
        begun.append(i)
        if i == 0:
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        parallel.in_threads(work, range(1000), n_threads=2)
    assert len(begun) < 100


def test_one_thread_is_counted_under_a_lock():
    """64 threads that come and go: the library is never set free while anyone is inside."""
    n_threads, wrong = [4], []

    def limit():
        n_threads[0] = 1
        return lambda: n_threads.__setitem__(0, 4)

    one_thread = parallel.OneThread(lambda: n_threads[0], limit)

    @one_thread.inside()
    def work(_):
        time.sleep(0.0005)
        wrong.extend(n for n in n_threads if n != 1)

    parallel.in_threads(work, range(500), n_threads=64)
    assert not wrong
    assert n_threads == [4]


def test_little_work_is_not_shared_by_blas_threads_and_much_is():
    with threadpool_limits(2, "blas"):
        assert blas_threads() == {2}
        with parallel.blas_for(1.0):
            assert blas_threads() == {1}
        with parallel.blas_for(parallel.SHARED):
            assert blas_threads() == {2}
        assert parallel.in_blas_threads(lambda _: blas_threads(), [0, 1]) == [{1}, {1}]
        assert blas_threads() == {2}


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}
