"""YearPredictionMSD: scalings and, where the files are, what the stand-in takes from them."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from acvbook import datasets
from acvbook.datasets import registry
from acvbook.datasets.columns import columns

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "msd"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/msd")


@pytest.fixture(params=["files", "no files"])
def simulated(request, monkeypatch, tmp_path):
    if request.param == "no files":
        monkeypatch.delenv("ACVLIB_DATA", raising=False)
        monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / name)
    return datasets.simulate_msd(np.random.default_rng(0), 20_000)


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
def test_stand_in_has_the_published_quartiles_and_the_correlation_of_the_rows():
    summary = pd.read_csv(registry.find("msd", "summary_full_first12.csv"), index_col=0)
    quartiles = summary.loc[["min", "25%", "50%", "75%", "max"]]
    known = {name: law.quantiles[[0, 2, 3, 4, 6]] for name, law in columns("msd").items()}
    pd.testing.assert_frame_equal(quartiles, pd.DataFrame(known, quartiles.index), rtol=1e-4)
    data, real = datasets.simulate_msd(np.random.default_rng(0), 100_000), datasets.load_msd()
    ours, theirs = (
        np.corrcoef(table.X[:, :12].T)[np.triu_indices(12, 1)] for table in (data, real)
    )
    assert np.corrcoef(ours, theirs)[0, 1] > 0.95
