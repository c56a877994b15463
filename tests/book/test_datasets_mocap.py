"""Motion capture: channels scaled, and recordings that no model can use."""

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets.mocap import Mocap

from acvlib.models import HMM
from acvlib.models.hmm.emissions import AutoRegression


def small(*sequences):
    return Mocap(list(sequences), 30, "simulated", "")


def test_scaling_is_by_the_reference_alone():
    rng = np.random.default_rng(1)
    a, b = small(rng.normal(size=(30, 12)) * 5.0), small(rng.normal(size=(9, 12)))
    assert np.concatenate(a.scaled().sequences).std(axis=0) == pytest.approx(1.0)
    expected = b.sequences[0] / a.sequences[0].std(axis=0)
    np.testing.assert_allclose(b.scaled(a).sequences[0], expected)
    assert a.scaled().take([0]).sha256 == a.sha256


def test_a_channel_that_never_moves_is_named():
    x = np.random.default_rng(2).normal(size=(20, 12))
    x[:, [8, 9]] = 3.0
    with pytest.raises(ValueError, match=r"rtibia.rx, rfoot.rx: constant in all 1 sequences"):
        small(x).scaled()


def test_a_channel_constant_in_some_sequences_only_is_fine():
    """As in two of the real recordings: it says little there, and enough elsewhere."""
    x = np.random.default_rng(3).normal(size=(2, 20, 12))
    x[0, :, 8] = 1.0
    model = HMM(small(*x).scaled().sequences, 2, AutoRegression(1))
    assert np.isfinite(model.objective(model.initial_params(np.random.default_rng(0)), np.ones(2)))


def test_sequences_shorter_than_the_order_are_counted():
    x = [np.random.default_rng(n).normal(size=(length, 12)) for n, length in enumerate((20, 5, 3))]
    with pytest.raises(
        ValueError,
        match="sequence 1 has 5 frames.*leave out the 2 sequences of fewer than 6 frames",
    ):
        HMM(small(*x).scaled().sequences, 2, AutoRegression(5))


def test_missing_frames_take_no_part():
    """A nan frame changes nothing but its own term and those that look back at it:
    whatever stands there.
    """
    x = np.random.default_rng(4).normal(size=(2, 20, 12))
    x[0, 7] = np.nan
    model = HMM(list(x), 2, AutoRegression(1))
    assert np.flatnonzero(~model.frames.observed).tolist() == [6, 7]  # frames count from the second
    x[0, 7, 3] = 0.0
    with pytest.raises(ValueError, match="frame 7 of sequence 0: a frame is finite, or wholly nan"):
        HMM(list(x), 2, AutoRegression(1))


def test_other_rates_do_not_exist():
    with pytest.raises(ValueError, match="rate = 25: the canonical files have 10 and 30"):
        datasets.load_mocap(25)
