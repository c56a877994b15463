"""Gene expression: rebuilt replicates, the simulated stand-in and, where the data are,
what their README says.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets import registry
from numpy.testing import assert_allclose

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "genomics"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/genomics")


@pytest.fixture(scope="module")
def simulated():
    return datasets.simulate_genomics(np.random.default_rng(0), 400)


def check_replicates(data):
    """Rebuilt replicates keep the means and have the variance asked for; the same seed,
    the same replicates.
    """
    first, again = (data.replicates(np.random.default_rng(1), 0.5) for _ in range(2))
    assert (first == again).all()
    assert first.shape == (*data.means.shape, 3)
    assert_allclose(first.mean(axis=2), data.means, atol=1e-12)
    assert_allclose(first.var(axis=2, ddof=1).mean(), 0.5, rtol=0.15)


def test_simulated_has_the_real_shape_and_scale(simulated):
    assert simulated.means.shape == (400, 14)
    assert (len(simulated.train), len(simulated.test)) == (280, 120)
    assert set(simulated.train) | set(simulated.test) == set(range(400))
    assert_allclose(simulated.means.mean(axis=1), 0.0, atol=1e-12)
    assert 0.5 < simulated.means.std() < 2.5
    assert repr(simulated) == "Genomics(400 genes, 14 times, simulated)"
    check_replicates(simulated)


def test_same_seed_same_data(simulated):
    again, other = (datasets.simulate_genomics(np.random.default_rng(seed), 400) for seed in (0, 1))
    assert again.sha256 == simulated.sha256 != other.sha256


def test_a_few_genes_keep_their_kind(simulated):
    few = simulated.take(20, 10)
    assert (len(few.train), len(few.test)) == (20, 10)
    assert (few.means[few.train] == simulated.means[simulated.train[:20]]).all()
    assert (few.means[few.test] == simulated.means[simulated.test[:10]]).all()
    assert few.sha256 == simulated.sha256


def test_shapes_are_checked(simulated):
    with pytest.raises(
        ValueError, match=r"means \(400, 13\) and donors \(50, 14, 3\) do not fit 14 times"
    ):
        datasets.Genomics(
            simulated.means[:, 1:], simulated.train, simulated.donors, "simulated", ""
        )


def test_stand_in_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("ACVLIB_DATA", raising=False)
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / name)
    assert datasets.load_or_simulate("genomics", np.random.default_rng(0)).provenance == "simulated"


@needs_real_data
def test_real_data_are_as_described():
    data = datasets.load_genomics()
    assert data.means.shape == (1000, 14)
    assert data.provenance == "rebuilt"
    assert (len(data.train), len(set(data.train)), len(data.test)) == (700, 700, 300)
    assert_allclose(data.means.mean(axis=1), 0.048, atol=0.03)
    assert_allclose((data.donors**2).sum(axis=2).mean() / 2, 0.21, atol=0.01)
    check_replicates(data)


@needs_real_data
def test_the_authors_numbers_are_those_of_the_paper():
    results = datasets.load_giordano_results()
    assert results.genomics_seconds.n_params.loc[[4, 8]].unique().tolist() == [25325, 54797]
    assert results.genomics_seconds.n_folds.loc[6].tolist() == [7, 21, 35]
    errors = results.genomics_errors.xs("mean", axis=1, level=1)
    assert sorted(errors.columns) == ["exact", "ij", "test", "train"]
    assert (errors.ij < errors.exact).all()
    assert (errors.test.loc[8] > errors.test.loc[7]).all()
    assert (errors.train.loc[8] < errors.train.loc[7]).all()
