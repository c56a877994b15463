"""joblib runs TreeCV on a Dask cluster of two worker processes, to the local answer."""

import sys

import cloudpickle
import joblib
import numpy as np
import pytest

from acvlib.treecv import Examples, FoldsFailed, kfold, learners, treecv

distributed = pytest.importorskip("distributed")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import the tests
pytestmark = pytest.mark.filterwarnings(
    "default"
)  # the cluster's own start and end warn of ports and loops

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


@pytest.fixture(scope="module", autouse=True)
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        yield


def table(n=600):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return Examples(X, X @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=n))


@pytest.mark.parametrize("method", [treecv, kfold])
@pytest.mark.parametrize("order", ["fixed", "randomized"])
@pytest.mark.parametrize("learner", [LEARNER, Python()], ids=["compiled", "python"])
def test_the_answer_is_the_local_one_to_the_bit(method, order, learner):
    call = {"order": order, "rng": 3}
    with joblib.parallel_config(backend="dask"):
        remote = method(learner, table(), 7, **call)
    local = method(learner, table(), 7, **call)
    np.testing.assert_array_equal(remote.pointwise, local.pointwise)


def test_an_exception_on_a_worker_names_its_folds():
    data = table()
    with (
        joblib.parallel_config(backend="dask"),
        pytest.raises(FoldsFailed, match="failed: ZeroDivisionError: a bad row") as caught,
    ):
        treecv(Python(bad=data.X[300, 0]), data, 4, shuffle=False)
    np.testing.assert_array_equal(
        np.isfinite(caught.value.result.fold_losses), [False, False, True, False]
    )
