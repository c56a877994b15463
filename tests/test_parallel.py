"""The active number of workers is used, wherever they run; BLAS threads only where they pay."""

import sys
import time
from multiprocessing.pool import ThreadPool

import cloudpickle
import joblib
import numpy as np
import pytest
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_info, threadpool_limits

import acvlib as acv
from acvlib import parallel
from acvlib.treecv import Examples, FoldsFailed, kfold, learners, treecv

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import the tests


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


def test_ctrl_c_waits_for_nothing_that_has_not_begun_and_its_pool_serves_nobody_again():
    with joblib.parallel_config("threading", n_jobs=2):
        backend, _ = get_active_backend()
        backend._pool = ThreadPool(2)
        backend._pool.close()  # where Ctrl-C meets `terminate`, the pool stays like this
        done = parallel.threads()(joblib.delayed(divmod)(i, 3) for i in range(5))
        assert done == [divmod(i, 3) for i in range(5)]
        backend._pool.terminate()
    begun = []

    def work(i):
        begun.append(i)
        if i == 0:
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        parallel.in_threads(work, range(1000), n_threads=2)
    assert len(begun) < 100


def test_one_thread_is_counted_under_a_lock_and_little_work_is_not_shared_by_blas_threads():
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


LEARNER = learners.lsqsgd(4, 0.05)


class Python:
    """The same by its methods; fails on a row that starts with `bad`."""

    init, loss = LEARNER.init, LEARNER.loss

    def __init__(self, bad=None):
        self.bad = bad

    def update(self, state, X, y):
        if self.bad in X[:, 0]:
            raise ZeroDivisionError("a bad row")
        return LEARNER.update(state, X, y)


def on_workers(function, n_workers=2, **settings):
    """What a function returns where joblib sends its tasks to a cluster of Dask."""
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "dashboard_address": None} | settings
    with (
        distributed.LocalCluster(n_workers=n_workers, **options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        return function()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = acv.models.GLM(X, (X[:, 0] + rng.normal(size=200) > 0) * 1.0, "logistic", penalty=1.0)
    return acv.fit(model), acv.folds.k_fold(200, 100, rng=rng)


@pytest.mark.filterwarnings("default")  # of ports and loops, as a cluster starts and ends
def test_workers_give_the_local_answer(problem):
    fit, folds = problem
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    data = Examples(X, X @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=600))
    calls = [(treecv, LEARNER, "randomized"), (kfold, LEARNER, "fixed")]
    calls.append((treecv, Python(), "fixed"))

    def losses():
        runs = [method(own, data, 7, order=order, rng=3) for method, own, order in calls]
        return [run.pointwise for run in runs]

    def everything():
        with pytest.raises(FoldsFailed, match="failed: ZeroDivisionError: a bad row") as caught:
            treecv(Python(bad=data.X[300, 0]), data, 4, shuffle=False)
        finished = np.isfinite(caught.value.result.fold_losses)
        return acv.exact(fit, folds), losses(), finished.tolist()

    remote, learnt, finished = on_workers(everything)
    assert finished == [False, False, True, False]
    assert all(map(np.array_equal, learnt, losses()))
    local = acv.exact(fit, folds)
    assert fit.standard_errors_between(remote.params, local.params).max() < 2e-6
    np.testing.assert_allclose(remote.pointwise, local.pointwise, atol=1e-6)
    assert remote.evaluations["gradient"] > 0
    alone = on_workers(lambda: acv.exact(fit, folds), 1, processes=False)
    np.testing.assert_array_equal(remote.params, alone.params)


def test_what_is_finished_is_kept(problem, tmp_path):
    fit, folds = problem
    memory = joblib.Memory(tmp_path, verbose=0)
    first = memory.cache(acv.exact)(fit, folds)
    assert memory.cache(acv.exact).check_call_in_cache(fit, folds)
    assert not memory.cache(acv.exact).check_call_in_cache(fit, folds[:50])
    again = memory.cache(acv.exact)(fit, folds)
    np.testing.assert_array_equal(again.pointwise, first.pointwise)
    assert again.seconds == first.seconds
