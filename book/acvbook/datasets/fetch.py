"""Public originals → the cache, verified on the way in."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile

import pooch

from ..whole import write
from . import dodgers_uci, registry


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
        unpack = pooch.Unzip(members=dodgers_uci.MEMBERS, extract_dir="originals")
        pooch.retrieve(data_set.archive, None, path=temporary, processor=unpack)
        readings = [
            dodgers_uci.canonical(Path(temporary, "originals"), ends) for ends in ("both", "left")
        ]
    for content in readings:
        if hashlib.sha256(content).hexdigest() == expected:
            write(folder / file, content)
            return
    raise registry.DataCorrupt(f"{data_set.archive}: not the known counts and games")
