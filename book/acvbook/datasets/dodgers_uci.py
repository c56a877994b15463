"""The original UCI files of the Dodgers Loop Sensor set, made into the canonical CSV."""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path
from typing import Literal

import pandas as pd

from . import registry
from .dodgers import CANONICAL_FILE, MISSING, counts_sha256

LARGEST = {"Dodgers.data": 3_000_000, "Dodgers.events": 30_000}  # bytes; they have 1.1 M and 4,000
# Of the canonical `count` column. The original archive's own checksum is not known to us, so what
# it says is checked in place of its bytes: the counts, then the whole canonical file.
_COUNTS_SHA256 = "7e7d5be336fd6be06a9621bd4b789226da95b607ba6c123daee5900310d4dafb"


def read_uci(folder: str | PathLike, inclusive: Literal["both", "left"] = "both") -> pd.DataFrame:
    """The columns `timestamp, count, in_game` from `Dodgers.data` and `Dodgers.events`.

    `Dodgers.data` has lines `mm/dd/yyyy HH:MM,count` with -1 for missing; `Dodgers.events` has
    lines `mm/dd/yy,HH:MM:SS,HH:MM:SS,attendance,opponent,result`, begin and end of each home game.
    in_game is 1 on observed rows from begin to end, the end included unless `inclusive` is "left".
    Raises ValueError on any other format.
    """
    table = pd.read_csv(Path(folder, "Dodgers.data"), header=None, names=["timestamp", "count"])
    table["timestamp"] = pd.to_datetime(table["timestamp"], format="%m/%d/%Y %H:%M")
    in_game = pd.Series(False, index=table.index)
    for begin, end in _read_games(Path(folder, "Dodgers.events")):
        in_game |= table["timestamp"].between(begin, end, inclusive)
    table["in_game"] = (in_game & (table["count"] != MISSING)).astype(int)
    return table


def install(folder: str | PathLike, known_counts: str = _COUNTS_SHA256) -> Path:
    """Convert the UCI files in `folder` and keep the canonical CSV in the cache; returns its path.

    Raises DataCorrupt, and keeps nothing, unless counts and games are exactly the known ones.
    """
    table = read_uci(folder)
    remedy = "Is it the original of https://archive.ics.uci.edu/dataset/157?"
    actual = counts_sha256(table["count"].to_numpy())
    registry.check(f"counts of {Path(folder, 'Dodgers.data')}", actual, known_counts, remedy)
    # Whether a game that ends on a full five minutes has that row is up to the copy that our
    # checksum is of: one of the two must agree with it.
    readings = [to_canonical(table), to_canonical(read_uci(folder, inclusive="left"))]
    known = registry.get("dodgers").files[CANONICAL_FILE]
    found = [hashlib.sha256(content).hexdigest() for content in readings]
    if known not in found:
        registry.check(f"games of {Path(folder, 'Dodgers.events')}", found[0], known, remedy)
    return registry.store_converted("dodgers", CANONICAL_FILE, readings[found.index(known)])


def to_canonical(table: pd.DataFrame) -> bytes:
    """The canonical CSV: one header line, timestamps to the minute, lines ended by a line feed."""
    text = table.to_csv(index=False, date_format="%Y-%m-%d %H:%M", lineterminator="\n")
    return text.encode("ascii")


def _read_games(path):
    """(begin, end) of each game. Latin-1, because team names in the original are not all ASCII."""
    games = pd.read_csv(path, header=None, usecols=[0, 1, 2], dtype=str, encoding="latin-1")
    begin, end = (
        pd.to_datetime(games[0] + " " + games[i], format="%m/%d/%y %H:%M:%S") for i in (1, 2)
    )
    return zip(begin, end, strict=True)
