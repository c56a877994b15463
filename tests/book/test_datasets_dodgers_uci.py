"""The original UCI files of the Dodgers set: their format, their conversion, their checksum."""

import hashlib
import os
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from acvbook import datasets
from acvbook.datasets import dodgers_uci, fetch, registry
from acvbook.datasets.dodgers import counts_sha256

DATA_FOLDER = Path(os.environ.get("ACVLIB_DATA", "/nonexistent")) / "dodgers"
needs_real_data = pytest.mark.skipif(not DATA_FOLDER.is_dir(), reason="needs $ACVLIB_DATA/dodgers")

# Invented numbers in the original format: single digits and a byte that is not ASCII are in it too.
UCI_DATA = (
    "4/10/2005 0:00,-1\n04/10/2005 00:05,7\n4/10/2005 0:10,9\n4/10/2005 0:15,-1\n4/10/2005 0:20,4\n"
)
UCI_EVENTS = "04/10/05,00:05:00,00:18:00,1234,San Jos\xe9,W 1-0\n"
CANONICAL = (
    "timestamp,count,in_game\n2005-04-10 00:00,-1,0\n2005-04-10 00:05,7,1\n2005-04-10 00:10,9,1\n"
    "2005-04-10 00:15,-1,0\n2005-04-10 00:20,4,0\n"
)


@pytest.fixture
def uci_folder(tmp_path):
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "Dodgers.data").write_text(UCI_DATA, encoding="ascii")
    (tmp_path / "uci" / "Dodgers.events").write_text(UCI_EVENTS, encoding="latin-1")
    return tmp_path / "uci"


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("ACVLIB_DATA", raising=False)
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "dodgers"


COUNTS_SHA256 = counts_sha256(np.array([-1, 7, 9, -1, 4]))


@pytest.fixture
def accept_invented(monkeypatch):
    """The registry as it would be if the invented numbers were the real ones."""
    known = {"dodgers_counts.csv": hashlib.sha256(CANONICAL.encode()).hexdigest()}
    invented = replace(registry.get("dodgers"), files=known)
    monkeypatch.setattr(registry, "data_sets", lambda: {"dodgers": invented})


def test_original_format(uci_folder):
    assert dodgers_uci.to_canonical(dodgers_uci.read_uci(uci_folder)).decode() == CANONICAL


def test_other_format_is_refused(uci_folder):
    (uci_folder / "Dodgers.data").write_text("2005-04-10 00:00,3\n")
    with pytest.raises(ValueError, match="doesn't match format"):
        dodgers_uci.read_uci(uci_folder)


def test_install_refuses_other_counts(uci_folder, empty_cache):
    with pytest.raises(
        datasets.DataCorrupt, match=r"counts of .*Dodgers\.data.*sha256 is .*, expected 7e7d"
    ):
        dodgers_uci.install(uci_folder)
    assert not empty_cache.exists()


def test_download_converts_and_keeps(uci_folder, empty_cache, accept_invented, monkeypatch):
    archive = uci_folder.parent / "original.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in uci_folder.iterdir():
            zipped.write(file, file.name)
    monkeypatch.setattr(fetch.pooch, "retrieve", lambda *_, **__: str(archive))
    install = partial(dodgers_uci.install, known_counts=COUNTS_SHA256)
    monkeypatch.setitem(fetch._INSTALL, "dodgers", (install, dodgers_uci.LARGEST))
    data = datasets.load_dodgers(download=True)
    np.testing.assert_array_equal(data.counts, [-1, 7, 9, -1, 4])
    np.testing.assert_array_equal(data.in_game, [False, True, True, False, False])
    assert data.provenance == "real"
    monkeypatch.delattr(fetch.pooch, "retrieve")  # a second load must not ask again
    assert datasets.load_dodgers(download=True).sha256 == data.sha256


@pytest.mark.parametrize("end", ["00:18:00", "00:10:00", "00:20:00"])
def test_games_end_to_the_five_minutes_that_the_canonical_file_knows(
    uci_folder, empty_cache, accept_invented, end
):
    """An end on a full five minutes may be counted or not, as the canonical file has it."""
    events = (uci_folder / "Dodgers.events").read_text("latin-1")
    (uci_folder / "Dodgers.events").write_text(events.replace("00:18:00", end), "latin-1")
    path = dodgers_uci.install(uci_folder, COUNTS_SHA256)
    assert path.read_text() == CANONICAL


@pytest.mark.parametrize(
    ("old", "new"), [("00:18:00", "00:25:00"), ("00:05:00", "00:09:00"), (UCI_EVENTS, "")]
)
def test_forged_games_are_refused(uci_folder, empty_cache, accept_invented, old, new):
    forged = UCI_EVENTS.replace(old, new) or "04/11/05,00:05:00,00:18:00,1,A,W 1-0\n"
    (uci_folder / "Dodgers.events").write_text(forged, "latin-1")
    with pytest.raises(datasets.DataCorrupt, match=r"games of .*Dodgers\.events: sha256 is"):
        dodgers_uci.install(uci_folder, COUNTS_SHA256)
    assert not empty_cache.exists()


@needs_real_data
def test_real_series_survives_the_original_format(tmp_path, monkeypatch):
    """The real counts, written as UCI wrote them, convert to the canonical file byte for byte."""
    data = datasets.load_dodgers()
    stamps = pd.Series(data.timestamp)
    lines = stamps.dt.strftime("%m/%d/%Y %H:%M") + "," + pd.Series(data.counts).astype(str)
    (tmp_path / "Dodgers.data").write_text("\n".join(lines) + "\n")
    begins = stamps[data.in_game & ~np.roll(data.in_game, 1)].dt.strftime("%m/%d/%y,%H:%M:00")
    ends = stamps[data.in_game & ~np.roll(data.in_game, -1)].dt.strftime("%H:%M:59")
    games = [f"{begin},{end},0,A,W 1-0" for begin, end in zip(begins, ends, strict=True)]
    (tmp_path / "Dodgers.events").write_text("\n".join(games) + "\n")
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / "cache")
    assert registry.file_sha256(dodgers_uci.install(tmp_path)) == data.sha256
    (tmp_path / "Dodgers.events").write_text("\n".join(games[1:]) + "\n")  # one game forgotten
    with pytest.raises(datasets.DataCorrupt, match="games of"):
        dodgers_uci.install(tmp_path)
