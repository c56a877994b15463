"""exact on joblib's dask backend gives the answer of one machine; joblib.Memory keeps it."""

import joblib
import numpy as np
import pytest

import acvlib as acv

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings(
    "default"
)  # the cluster's own start and end warn of ports and loops


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = acv.models.GLM(X, (X[:, 0] + rng.normal(size=200) > 0) * 1.0, "logistic", penalty=1.0)
    return acv.fit(model), acv.folds.k_fold(200, 100, rng=rng)


def test_workers_of_a_cluster_refit_the_folds(problem):
    fit, folds = problem
    local = acv.exact(fit, folds)
    options = {"threads_per_worker": 1, "dashboard_address": None}
    remote = []
    for n_workers in (1, 2):
        with (
            distributed.LocalCluster(n_workers=n_workers, **options) as cluster,
            distributed.Client(cluster),
            joblib.parallel_config("dask"),
        ):
            remote.append(acv.exact(fit, folds))
    np.testing.assert_array_equal(remote[0].params, remote[1].params)
    assert fit.standard_errors_between(remote[0].params, local.params).max() < 2e-6
    np.testing.assert_allclose(remote[0].pointwise, local.pointwise, atol=1e-6)
    assert remote[0].evaluations["gradient"] > 0


def test_what_is_finished_is_kept(problem, tmp_path, monkeypatch):
    fit, folds = problem
    memory = joblib.Memory(tmp_path, verbose=0)
    first = memory.cache(acv.exact)(fit, folds)
    assert memory.cache(acv.exact).check_call_in_cache(fit, folds)
    assert not memory.cache(acv.exact).check_call_in_cache(fit, folds[:50])
    again = memory.cache(acv.exact)(fit, folds)
    np.testing.assert_array_equal(again.pointwise, first.pointwise)
    assert again.seconds == first.seconds
