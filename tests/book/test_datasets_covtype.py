"""Covertype: the simulated stand-in and, where the data are,
the real records as their README counts them.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets import registry

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "covtype"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/covtype")


@pytest.fixture(scope="module")
def simulated():
    return datasets.simulate_covtype(np.random.default_rng(0), 20_000)


def test_simulated_has_the_real_shape_and_scale(simulated):
    assert simulated.X.shape == (20_000, 54)
    assert (simulated.X[:, 10:14].sum(axis=1) == 1).all()
    assert (simulated.X[:, 14:].sum(axis=1) == 1).all()
    assert 0.34 < (simulated.cover == 1).mean() < 0.39
    assert 2900 < simulated.X[:, 0].mean() < 3020
    assert repr(simulated) == "Covtype(20,000 records, 54 features, simulated)"


def test_same_seed_same_data(simulated):
    again, other = (
        datasets.simulate_covtype(np.random.default_rng(seed), 20_000) for seed in (0, 1)
    )
    assert again.sha256 == simulated.sha256 != other.sha256


@pytest.mark.parametrize("centred", [False, True])
def test_spruce_fir_is_scaled_to_unit_variance(simulated, centred):
    examples = simulated.spruce_fir(centred)
    varies = simulated.X.std(axis=0) > 0
    np.testing.assert_allclose(examples.X.std(axis=0)[varies], 1.0, rtol=1e-9)
    assert np.allclose(examples.X.mean(axis=0), 0.0, atol=1e-9) == centred
    np.testing.assert_array_equal(examples.y == 1, simulated.cover == 1)
    assert set(examples.y) == {-1.0, 1.0}
    longer = simulated.spruce_fir(centred, constant=True)
    np.testing.assert_array_equal(longer.X[:, :54], examples.X)
    assert (longer.X[:, 54:] == 1.0).all()


def test_a_column_without_variance_stays_finite(simulated):
    few = simulated.take(np.flatnonzero(simulated.X[:, 13] == 0)[:50])
    assert (few.spruce_fir().X[:, 13] == 0).all()
    assert (len(few), few.sha256) == (50, simulated.sha256)


def test_records_are_checked(simulated):
    with pytest.raises(ValueError, match=r"\(20000, 10\), not \(20000, 54\)"):
        datasets.Covtype(simulated.X[:, :10], simulated.cover, "simulated", "")
    with pytest.raises(ValueError, match="cover types 0 ... 6"):
        datasets.Covtype(simulated.X, simulated.cover - 1, "simulated", "")


def test_stand_in_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("ACVLIB_DATA", raising=False)
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / name)
    with pytest.raises(datasets.DataNotFound, match=r"covtype: no covtype_397050\.csv\.gz"):
        datasets.load_covtype()
    assert datasets.load_or_simulate("covtype", np.random.default_rng(0)).provenance == "simulated"


@needs_real_data
def test_real_records_are_those_described():
    data = datasets.load_covtype()
    counts = [144926, 193461, 24357, 1856, 6522, 11870, 14058]
    np.testing.assert_array_equal(np.bincount(data.cover)[1:], counts)
    np.testing.assert_array_equal(data.X[:, 10:14].sum(axis=0), [178314, 20616, 172880, 25240])
    assert (data.X[:, 14:].sum(axis=0) > 0).all()
    elevation = data.X[:, 0]
    assert (elevation.min(), elevation.max()) == (1863, 3858)
    assert (elevation.mean(), elevation.std()) == (
        pytest.approx(2959.57, abs=5e-3),
        pytest.approx(279.92, abs=5e-3),
    )
    assert (data.provenance, data.sha256) == (
        "real, partial",
        registry.get("covtype").files["covtype_397050.csv.gz"],
    )
