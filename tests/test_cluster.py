"""joblib on a Dask cluster of two workers gives the local answer, and its Memory keeps it."""

import sys

import cloudpickle
import joblib
import numpy as np
import pytest

import acvlib as acv
from acvlib.treecv import Examples, FoldsFailed, kfold, learners, treecv

distributed = pytest.importorskip("distributed")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import the tests
# The cluster's own start and end warn of ports and loops.
pytestmark = pytest.mark.filterwarnings("default")

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
    """What a function returns where joblib sends its tasks to a cluster."""
    options = {"threads_per_worker": 1, "dashboard_address": None} | settings
    with (
        distributed.LocalCluster(n_workers=n_workers, **options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        return function()


def table(n=600):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return Examples(X, X @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=n))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = acv.models.GLM(X, (X[:, 0] + rng.normal(size=200) > 0) * 1.0, "logistic", penalty=1.0)
    return acv.fit(model), acv.folds.k_fold(200, 100, rng=rng)


def test_workers_give_the_local_answer(problem):
    """Of refits and of learners; an exception on a worker names its folds."""
    fit, folds = problem
    data = table()
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
