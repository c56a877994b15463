"""Gene expression: rebuilt replicates, and the numbers of the paper where they are."""

import os
from pathlib import Path

import numpy as np
import pytest
from acvbook import datasets
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


def test_replicates_have_the_means_and_the_variance_asked_for(simulated):
    assert set(simulated.train) | set(simulated.test) == set(range(400))
    assert repr(simulated) == "Genomics(400 genes, 14 times, simulated)"
    check_replicates(simulated)


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


@needs_real_data
def test_real_donors_are_as_described():
    data = datasets.load_genomics()
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
