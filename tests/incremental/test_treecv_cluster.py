"""TreeCV on a cluster of two worker processes: the local answer, models move, chunks stay."""

import os
import pickle
import signal
import sys
import threading
import time
from contextlib import contextmanager

import cloudpickle
import numpy as np
import pytest

distributed = pytest.importorskip("distributed")

import dask  # noqa: E402
import joblib  # noqa: E402

import acvlib as acv  # noqa: E402
from acvlib.incremental import FoldsFailed, kfold, learners, treecv  # noqa: E402
from acvlib.incremental.chunks import count_updates  # noqa: E402
from acvlib.incremental.cluster import count_messages  # noqa: E402
from acvlib.incremental.protocol import Examples  # noqa: E402
from acvlib.incremental.recursion import Progress  # noqa: E402
from acvlib.methods import refits  # noqa: E402
from acvlib.scores import Interrupted  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import the tests
pytestmark = pytest.mark.filterwarnings(
    "default"
)  # the cluster's own start and end warn of ports and loops

LEARNER = learners.lsqsgd(4, 0.05)


@pytest.fixture(scope="module")
def client():
    """Two workers that keep what they were sent: Dask's memory manager drops copies every 2 s."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        dask.config.set({"distributed.scheduler.active-memory-manager.start": False}),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def table(n=600):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return Examples(X, X @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=n))


class Slow:
    """LSQSGD that takes its time, so as to be disturbed; fails on a row that starts with `bad`."""

    def __init__(self, seconds, bad=None):
        self.seconds, self.bad = seconds, bad

    def init(self):
        return LEARNER.init()

    def update(self, state, X, y):
        time.sleep(self.seconds)
        if self.bad in X[:, 0]:
            raise ZeroDivisionError("a bad row")
        return LEARNER.update(state, X, y)

    def loss(self, state, X, y):
        return LEARNER.loss(state, X, y)


def received(client):
    """Keys and bytes of everything the workers got from each other."""
    logs = client.run(lambda dask_worker: list(dask_worker.transfer_incoming_log)).values()
    return [item for log in logs for entry in log for item in entry["keys"].items()]


@pytest.mark.parametrize("k", [2, 7, 40])
def test_the_answer_is_the_local_one_to_the_bit(client, k):
    folds = np.array_split(np.random.default_rng(1).permutation(600), k)
    local, remote = treecv(LEARNER, table(), folds), treecv(LEARNER, table(), folds, client=client)
    np.testing.assert_array_equal(remote.pointwise, local.pointwise)
    assert (
        remote.evaluations["updates"]
        == local.evaluations["updates"]
        == count_updates([len(f) for f in folds])
    )


def test_only_models_travel_and_as_many_as_counted(client):
    before = len(received(client))
    result = treecv(LEARNER, table(), 16, client=client)
    moved = received(client)[before:]
    assert len(moved) == result.evaluations["models_sent"] == count_messages([0] * 8 + [1] * 8) > 0
    assert all(key.startswith("_learn") for key, _ in moved)
    assert all(size < 2 * len(pickle.dumps(LEARNER.init())) for _, size in moved)


@pytest.mark.parametrize("k", [2, 3, 16, 100, 1000])
def test_messages_grow_as_k_log_k(k):
    """Section 4.1: with a node for each chunk, each level sends a model to every chunk.

    Then one to test it. The two models that start from nothing are not sent by another worker.
    """
    assert (
        count_messages(list(range(k)))
        == count_updates(np.ones(k, int)) + k - 2
        <= k * (np.ceil(np.log2(k)) + 1)
    )
    assert count_messages([0] * k) == 0
    assert count_messages([i * 2 // k for i in range(k)]) == 2


def test_a_killed_worker_changes_nothing(client):
    victim = min(client.run(os.getpid).values())
    killer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    killer.start()
    disturbed = treecv(Slow(0.03), table(), 16, client=client)
    killer.join()
    assert victim not in client.run(os.getpid).values()
    np.testing.assert_array_equal(disturbed.pointwise, treecv(LEARNER, table(), 16).pointwise)
    assert disturbed.evaluations["updates"] > count_updates(np.full(16, 600 // 16))


def test_an_exception_on_a_worker_names_its_folds(client):
    data = table()
    with pytest.raises(
        FoldsFailed, match="fold 0 failed while .*ZeroDivisionError: a bad row"
    ) as caught:
        treecv(Slow(0.0, bad=data.X[300, 0]), data, 4, shuffle=False, client=client)
    np.testing.assert_array_equal(
        np.isfinite(caught.value.result.fold_losses), [False, False, True, False]
    )


def test_a_random_order_would_move_the_rows(client):
    with pytest.raises(ValueError, match="with a client"):
        treecv(LEARNER, table(), 4, order="randomized", rng=np.random.default_rng(0), client=client)


@pytest.mark.parametrize("method", [treecv, kfold])
def test_joblib_runs_on_the_same_cluster(client, method):
    """The way to scale out that serves every method: joblib's own Dask backend."""
    rng = np.random.default_rng
    with joblib.parallel_config(backend="dask"):
        remote = method(LEARNER, table(), 7, order="randomized", rng=rng(3))
    local = method(LEARNER, table(), 7, order="randomized", rng=rng(3))
    np.testing.assert_array_equal(remote.pointwise, local.pointwise)


@pytest.mark.parametrize("k", [2, 7, 40])
def test_kfold_trains_each_model_where_the_chunks_are(client, k):
    local, remote = kfold(LEARNER, table(), k), kfold(LEARNER, table(), k, client=client)
    np.testing.assert_array_equal(remote.pointwise, local.pointwise)
    assert remote.evaluations["updates"] == local.evaluations["updates"] == 600 * (k - 1)
    assert remote.evaluations["models_sent"] <= 2 * k


@contextmanager
def interrupted_after(n_results, kind, monkeypatch):
    """SIGINT once so many results were added."""
    add = kind.add
    left = iter(range(n_results, 0, -1))

    def counting(self, *result):
        add(self, *result)
        if next(left, 0) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "add", counting)
        yield


@pytest.mark.parametrize("method", [treecv, kfold])
def test_ctrl_c_keeps_what_is_done_and_stops_the_cluster(client, method, tmp_path, monkeypatch):
    """The next run has the workers for itself, and goes on to the answer without interruption."""
    learner = Slow(0.01)
    with pytest.raises(Interrupted) as caught, interrupted_after(3, Progress, monkeypatch):
        method(learner, table(), 12, client=client, checkpoint=tmp_path / "run.npz")
    done = np.isfinite(caught.value.result.fold_losses)
    assert 0 < done.sum() < 12
    deadline = time.monotonic() + 5
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())
    whole = method(LEARNER, table(), 12).pointwise
    for checkpoint in (caught.value.result, tmp_path / "run.npz"):
        again = method(learner, table(), 12, client=client, checkpoint=checkpoint)
        np.testing.assert_array_equal(again.pointwise, whole)
        assert again.evaluations["updates"] < method(LEARNER, table(), 12).evaluations["updates"]


def test_exact_on_a_cluster(client, tmp_path):
    """To the bit that of a run in parts on one machine; to the tolerance that of all at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = acv.models.GLM(X, (X[:, 0] + rng.normal(size=200) > 0) * 1.0, "logistic", penalty=1.0)
    fit = acv.fit(model)
    folds = acv.folds.k_fold(200, 100, rng=rng)
    remote = acv.exact(fit, folds, client=client)
    local = acv.exact(fit, folds, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(remote.params, local.params)
    np.testing.assert_array_equal(remote.pointwise, local.pointwise)
    apart = fit.standard_errors_between(acv.exact(fit, folds).params, remote.params)
    assert apart.max() < 2e-6


class SlowModel:
    """Quartic, with a pause in each objective; a fold whose number is `bad` raises."""

    n_sites = 60

    def __init__(self, bad=None):
        self.x = np.random.default_rng(0).normal(size=60)
        self.bad = bad

    def objective(self, params, weights):
        if not isinstance(weights, np.ndarray) or (weights == 0).any():
            time.sleep(0.005)
            if self.bad is not None and weights[self.bad] == 0:
                raise ZeroDivisionError("a bad fold")
        gap = self.x - params[0]
        return (weights * gap**4).sum() + (weights * params[0] ** 2).sum()

    def heldout_loss(self, params, fold):
        return (self.x[fold] - params[0]) ** 2

    def initial_params(self, rng):
        return np.zeros(1)


def test_ctrl_c_in_exact_on_a_cluster(client, tmp_path, monkeypatch):
    model = SlowModel()
    fit, folds = acv.fit(model), acv.folds.leave_one_out(60)
    with pytest.raises(Interrupted) as caught, interrupted_after(3, refits._Kept, monkeypatch):
        acv.exact(fit, folds, client=client, checkpoint=tmp_path / "run.npz")
    done = caught.value.result.diagnostics["converged"]
    assert 0 < done.sum() < 60
    again = acv.exact(fit, folds, client=client, checkpoint=tmp_path / "run.npz")
    whole = acv.exact(fit, folds, client=client)
    np.testing.assert_array_equal(again.params, whole.params)
    assert again.evaluations["gradient"] < whole.evaluations["gradient"]
    with pytest.raises(ZeroDivisionError, match="a bad fold"):
        acv.exact(fit, folds, client=client)
