"""Covertype: records are checked, and scaled for the papers' learner."""

import numpy as np
import pytest
from acvbook import datasets


@pytest.fixture(scope="module")
def simulated():
    return datasets.simulate_covtype(np.random.default_rng(0), 20_000)


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
