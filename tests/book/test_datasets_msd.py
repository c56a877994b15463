"""YearPredictionMSD: the simulated stand-in and, where the files are,
the real rows it is calibrated on.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets import msd, registry

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "msd"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/msd")


@pytest.fixture(params=["files", "no files"])
def simulated(request, monkeypatch, tmp_path):
    if request.param == "no files":
        monkeypatch.delenv("ACVLIB_DATA", raising=False)
        monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / name)
    return datasets.simulate_msd(np.random.default_rng(0), 20_000)


def test_simulated_has_the_real_shape_and_says_so(simulated):
    assert (simulated.X.shape, simulated.provenance) == ((20_000, 90), "simulated")
    assert (simulated.year == simulated.year.round()).all()
    assert 1922 <= simulated.year.min() < simulated.year.max() <= 2011
    assert repr(simulated) == "Msd(20,000 songs, 90 features, simulated)"


def test_same_seed_same_data(simulated):
    again, other = (datasets.simulate_msd(np.random.default_rng(seed), 20_000) for seed in (0, 1))
    assert again.sha256 == simulated.sha256 != other.sha256


def test_scalings(simulated):
    variance, centred, rows = (
        simulated.regression(s) for s in ("unit_variance", "centred", "unit_rows")
    )
    np.testing.assert_allclose([variance.X.std(axis=0), centred.X.std(axis=0)], 1.0, rtol=1e-9)
    np.testing.assert_allclose(centred.X.mean(axis=0), 0.0, atol=1e-9)
    assert abs(variance.X.mean(axis=0)[0]) > 5
    np.testing.assert_allclose(np.linalg.norm(rows.X, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(variance.y, (simulated.year - 1922) / 89)
    with pytest.raises(ValueError, match="scaling = 'none'"):
        simulated.regression("none")


def test_songs_are_checked():
    with pytest.raises(ValueError, match=r"\(3, 89\), not \(3, 90\)"):
        datasets.Msd(np.ones((3, 89)), np.full(3, 2000.0), "simulated", "")


@needs_real_data
def test_real_rows_are_those_described():
    data = datasets.load_msd()
    assert (len(data), data.provenance, data.year.min(), data.year.max()) == (
        1176,
        "real, partial",
        1930,
        2010,
    )
    assert data.year.mean() == pytest.approx(1998.125, abs=5e-4)
    assert data.year.std(ddof=1) == pytest.approx(12.488, abs=1e-3)  # the README truncates to 12.48
    assert data.sha256 == registry.get("msd").files[msd.ROWS_FILE]


@needs_real_data
def test_stand_in_has_the_published_quartiles_and_the_correlation_of_the_rows():
    """Of 100,000 songs; the published mean of the year, which no quantile fixes,
    comes out within a year.
    """
    data, real = datasets.simulate_msd(np.random.default_rng(0), 100_000), datasets.load_msd()
    np.testing.assert_allclose(
        np.quantile(data.year, [0.25, 0.5, 0.75]), [1994, 2002, 2006], atol=1
    )
    np.testing.assert_allclose(
        np.quantile(data.X[:, 0], [0.25, 0.5, 0.75]), [39.95, 44.26, 47.83], atol=0.1
    )
    assert abs(data.year.mean() - 1998.4) < 1.5
    ours, theirs = (
        np.corrcoef(table.X[:, :12].T)[np.triu_indices(12, 1)] for table in (data, real)
    )
    assert np.corrcoef(ours, theirs)[0, 1] > 0.95
