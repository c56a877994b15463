"""The Dodgers series: the simulated stand-in and, where the data are, the real counts."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets import registry
from acvbook.datasets.dodgers import counts_sha256

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "dodgers"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/dodgers")


@pytest.fixture(scope="module")
def simulated():
    return datasets.simulate_dodgers(np.random.default_rng(0))


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("ACVLIB_DATA", raising=False)
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "dodgers"


def run_lengths(flags):
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    return np.diff(edges)[::2]


def test_simulated_has_the_real_shape_and_missingness(simulated):
    assert len(simulated) == len(simulated.day) == len(simulated.in_game) == 50_400
    missing = run_lengths(~simulated.observed)
    assert (missing[0], missing.size, missing.sum()) == (379, 55, 2903)
    assert not simulated.observed[:379].any()
    assert simulated.counts.min() == -1
    assert simulated.counts.dtype == np.int64


def test_simulated_has_the_real_scale(simulated):
    observed = simulated.counts[simulated.observed]
    assert 19 < observed.mean() < 23
    assert 70 < observed.max() < 110
    by_day = [
        simulated.counts[simulated.observed & (simulated.day == day)].mean() for day in range(7)
    ]
    assert min(by_day) == by_day[0]
    np.testing.assert_allclose(by_day, [16.7, 19.9, 22.3, 22.8, 22.4, 23.2, 19.0], atol=1.2)


def test_simulated_events_add_cars(simulated):
    games = simulated.in_game & simulated.observed
    excess = simulated.counts[games].mean() - simulated.counts[simulated.observed & ~games].mean()
    assert 14 < excess < 20
    assert 50 < run_lengths(simulated.in_game).size < 110


def test_same_seed_same_data(simulated):
    again, other = (datasets.simulate_dodgers(np.random.default_rng(seed)) for seed in (0, 1))
    np.testing.assert_array_equal(again.counts, simulated.counts)
    assert again.sha256 == simulated.sha256 == counts_sha256(simulated.counts)
    assert other.sha256 != simulated.sha256
    assert (other.observed != simulated.observed).any()


def test_day_zero_is_sunday(simulated):
    np.testing.assert_array_equal(simulated.day, np.arange(50_400) // 288 % 7)


def test_head(simulated):
    head = simulated.head(500)
    assert (len(head), len(head.timestamp), head.in_game.size, head.day.size) == (500,) * 4
    assert (head.provenance, head.sha256) == ("simulated", simulated.sha256)
    assert repr(simulated) == "Dodgers(50,400 five-minute counts, 2,903 missing, simulated)"
    for n in (0, 50_401):
        with pytest.raises(ValueError, match=rf"head\({n}\) of a series of 50400"):
            simulated.head(n)


def test_series_is_checked(simulated):
    with pytest.raises(ValueError, match=r"\(3, 50400, 50400\)"):
        datasets.Dodgers(
            np.array([1, 2, 3]), simulated.timestamp, simulated.in_game, "simulated", ""
        )
    with pytest.raises(ValueError, match="a count is -2"):
        datasets.Dodgers(
            np.array([-2]), simulated.timestamp[:1], simulated.in_game[:1], "simulated", ""
        )


def test_load_without_data_names_the_command(empty_cache):
    with pytest.raises(datasets.DataNotFound, match=r"python -m acvbook\.datasets fetch dodgers"):
        datasets.load_dodgers()


def test_stand_in_says_so_once(empty_cache, caplog):
    with caplog.at_level(logging.WARNING):
        data = datasets.load_or_simulate("dodgers", np.random.default_rng(0))
    assert data.provenance == "simulated"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "SIMULATED" in caplog.text
    assert "fetch dodgers" in caplog.text


def test_corrupt_file_is_never_stood_in_for(empty_cache):
    empty_cache.mkdir(parents=True)
    (empty_cache / "dodgers_counts.csv").write_text("timestamp,count,in_game\n")
    with pytest.raises(datasets.DataCorrupt):
        datasets.load_or_simulate("dodgers", np.random.default_rng(0))


def test_stand_in_of_a_set_without_simulator():
    with pytest.raises(KeyError, match="no simulator for 'giordano_results'"):
        datasets.load_or_simulate("giordano_results", np.random.default_rng(0))


def test_import_is_light():
    code = "import sys, acvbook.datasets as d; d.data_sets(); "
    code += "print({'pandas', 'pooch'} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


@needs_real_data
def test_real_counts_are_those_described():
    data = datasets.load_dodgers()
    observed = data.counts[data.observed]
    assert (len(data), data.provenance) == (50_400, "real")
    assert data.sha256 == registry.get("dodgers").files["dodgers_counts.csv"]
    missing = run_lengths(~data.observed)
    assert (missing.size, missing.sum(), missing.max(), data.observed.argmax()) == (
        55,
        2903,
        379,
        379,
    )
    assert (observed.min(), np.median(observed), observed.max(), (observed == 0).sum()) == (
        0,
        22,
        90,
        736,
    )
    assert observed.mean() == pytest.approx(20.915, abs=5e-4)
    assert run_lengths(data.in_game).size == 79


@needs_real_data
def test_real_means_by_day():
    """The published means are means of each day's own mean."""
    data = datasets.load_dodgers()
    days = np.where(data.observed, data.counts, np.nan).reshape(175, 288)
    days = days[~np.isnan(days).all(axis=1)]
    weekday = data.day[::288][np.any(data.observed.reshape(175, 288), axis=1)]
    means = [np.nanmean(days[weekday == day], axis=1).mean() for day in range(7)]
    np.testing.assert_allclose(means, [16.69, 19.51, 23.13, 22.87, 22.51, 23.21, 18.71], atol=5e-3)
