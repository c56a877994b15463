"""Public originals → the cache, verified on the way in."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile

import pooch

from . import dodgers_uci, registry

# For each set with an `archive`: what turns the folder of unpacked originals into canonical files.
_INSTALL = {"dodgers": dodgers_uci.install}


def fetch(name: str) -> Path:
    """Download a data set, verify it and keep it in the cache; returns its folder there.

    Raises DataNotFound if the set has no download or its origin cannot be reached, and DataCorrupt
    (or pooch's ValueError) if what came is not what was expected; nothing is kept then.
    """
    data_set = registry.get(name)
    if not (data_set.archive or data_set.urls):
        raise registry.DataNotFound(f"{name} has no download; {data_set.how_to_get}")
    try:
        _fetch_archive(data_set) if data_set.archive else _fetch_files(data_set)
    except (OSError, BadZipFile) as error:
        raise registry.DataNotFound(
            f"{name}: download failed ({error}). {data_set.by_hand}"
        ) from error
    return registry.cache_folder(name)


def _fetch_files(data_set):
    for file, url in data_set.urls.items():
        known_hash = f"sha256:{data_set.files[file]}"
        pooch.retrieve(url, known_hash, fname=file, path=registry.cache_folder(data_set.name))


def _fetch_archive(data_set):
    # A temporary folder, so that a bad archive is not taken for a good one next time.
    with TemporaryDirectory() as folder:
        unzip = pooch.Unzip(extract_dir="original")
        pooch.retrieve(data_set.archive, known_hash=None, path=folder, processor=unzip)
        _INSTALL[data_set.name](Path(folder, "original"))
