"""exact(client=) on a cluster of two worker processes gives the local answer, also after Ctrl-C."""

import os
import signal
import sys
import time
from contextlib import contextmanager

import cloudpickle
import numpy as np
import pytest

distributed = pytest.importorskip("distributed")

import acvlib as acv  # noqa: E402
from acvlib.methods import refits  # noqa: E402
from acvlib.scores import Interrupted  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import the tests
pytestmark = pytest.mark.filterwarnings(
    "default"
)  # the cluster's own start and end warn of ports and loops


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


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
