"""Public originals → the cache, verified on the way in."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from zipfile import BadZipFile

import pandas as pd
import pooch

from ..whole import write
from . import registry
from .dodgers import MISSING

MEMBERS = ["Dodgers.data", "Dodgers.events"]


def canonical(folder: Path, inclusive: Literal["both", "left"]) -> bytes:
    """The CSV of `timestamp, count, in_game` from the original files.

    `Dodgers.data` has lines `mm/dd/yyyy HH:MM,count` with -1 for missing; `Dodgers.events` has
    lines `mm/dd/yy,HH:MM:SS,HH:MM:SS,...`, begin and end of each home game, in Latin-1. in_game is
    1 on observed rows from begin to end, the end included unless `inclusive` is "left".
    """
    table = pd.read_csv(folder / MEMBERS[0], header=None, names=["timestamp", "count"])
    table["timestamp"] = pd.to_datetime(table["timestamp"], format="%m/%d/%Y %H:%M")
    games = pd.read_csv(folder / MEMBERS[1], header=None, dtype=str, encoding="latin-1")
    begins, ends = (
        pd.to_datetime(games[0] + " " + games[i], format="%m/%d/%y %H:%M:%S") for i in (1, 2)
    )
    in_game = pd.Series(False, index=table.index)
    for begin, end in zip(begins, ends, strict=True):
        in_game |= table["timestamp"].between(begin, end, inclusive)
    table["in_game"] = (in_game & (table["count"] != MISSING)).astype(int)
    text = table.to_csv(index=False, date_format="%Y-%m-%d %H:%M", lineterminator="\n")
    return text.encode("ascii")


def fetch(name: str) -> Path:
    """Download a data set, verify it and keep it in the cache; returns its folder there.

    Raises DataNotFound if the set has no download or its origin cannot be reached, and DataCorrupt
    (or pooch's ValueError) if what came is not what was expected; nothing is kept then.
    """
    data_set = registry.get(name)
    if not (data_set.archive or data_set.urls):
        raise registry.DataNotFound(f"{name} has no download; {data_set.how_to_get}")
    folder = registry.cache_folder(name)
    try:
        for file, url in data_set.urls.items():
            pooch.retrieve(url, f"sha256:{data_set.files[file]}", fname=file, path=folder)
        if data_set.archive:
            _convert(data_set, folder)
    except (OSError, BadZipFile) as error:
        message = f"{name}: download failed ({error}). {data_set.by_hand}"
        raise registry.DataNotFound(message) from error
    return folder


def _convert(data_set, folder):
    """Keep the canonical file of a zip of originals, of which only the Dodgers' are known.

    Whether a game that ends on a full five minutes has that row is up to the copy that our checksum
    is of: one of the two readings must agree with it.
    """
    (file, expected) = next(iter(data_set.files.items()))
    with TemporaryDirectory() as temporary:  # so that a bad archive is not taken for a good one
        unpack = pooch.Unzip(members=MEMBERS, extract_dir="originals")
        pooch.retrieve(data_set.archive, None, path=temporary, processor=unpack)
        readings = [canonical(Path(temporary, "originals"), ends) for ends in ("both", "left")]
    for content in readings:
        if hashlib.sha256(content).hexdigest() == expected:
            write(folder / file, content)
            return
    raise registry.DataCorrupt(f"{data_set.archive}: not the known counts and games")
