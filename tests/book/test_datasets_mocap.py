"""Motion capture: the real files where they are, their stand-ins,
and recordings that no model can use.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets import mocap, registry
from acvbook.datasets.mocap import Mocap

from acvlib.models import HMM
from acvlib.models.hmm.emissions import AutoRegression

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "mocap"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/mocap")


def small(*sequences):
    return Mocap(list(sequences), 30, "simulated", "")


@needs_real_data
@pytest.mark.parametrize(("rate", "frames", "shortest"), [(30, 11_687, 37), (10, 6_841, 13)])
def test_real_sequences(rate, frames, shortest):
    data = datasets.load_mocap(rate)
    lengths = [len(sequence) for sequence in data.sequences]
    assert (len(data), sum(lengths), min(lengths), max(lengths)) == (124, frames, shortest, 100)
    assert {sequence.shape[1] for sequence in data.sequences} == {12}
    assert (data.provenance, data.rate) == ("real", rate)
    assert all(np.isfinite(sequence).all() for sequence in data.sequences)


@needs_real_data
def test_real_recording():
    data = datasets.load_mocap_long()
    assert (len(data), data.sequences[0].shape, data.rate) == (1, (1484, 12), 40)
    assert data.sha256 != datasets.load_mocap().sha256


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("ACVLIB_DATA", raising=False)
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / "cache" / name)


@pytest.mark.parametrize(
    ("name", "n", "rate"), [("mocap", 124, 30), ("mocap, 10 fps", 124, 10), ("mocap, long", 1, 40)]
)
def test_stand_ins_say_so_and_have_the_real_shape(empty_cache, caplog, name, n, rate):
    data = datasets.load_or_simulate(name, np.random.default_rng(0))
    assert (data.provenance, len(data), data.rate) == ("simulated", n, rate)
    assert "SIMULATED" in caplog.text
    assert "simulated" in repr(data)
    assert data.sequences[0].shape[1] == len(mocap.CHANNELS)
    assert datasets.load_or_simulate(name, np.random.default_rng(0)).sha256 == data.sha256


def test_stand_in_is_like_the_real_set():
    data = datasets.simulate_mocap(np.random.default_rng(0))
    lengths = np.array([len(sequence) for sequence in data.sequences])
    assert 37 <= lengths.min() < lengths.max() == 100
    assert np.median(lengths) == 100
    deviation = np.concatenate(data.sequences).std(axis=0)
    assert (abs(np.log2(deviation / mocap._DEVIATION)) < 1.5).all()
    assert all(abs(sequence.mean(axis=0)).max() < 1e-3 for sequence in data.sequences)


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


def test_nothing_is_found_without_files(empty_cache):
    with pytest.raises(registry.DataNotFound, match="mocap"):
        datasets.load_mocap()
