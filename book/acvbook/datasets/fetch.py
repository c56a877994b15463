"""Public originals → the cache, verified on the way in."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

import pooch

from . import dodgers_uci, registry

LARGEST_DOWNLOAD = 100_000_000  # bytes; no data set has more than 15 million
# For each set with an `archive`: what turns the folder of unpacked originals into canonical files,
# and the most bytes that each original may have.
_INSTALL = {"dodgers": (dodgers_uci.install, dodgers_uci.LARGEST)}


def fetch(name: str, largest: int = LARGEST_DOWNLOAD) -> Path:
    """Download a data set, verify it and keep it in the cache; returns its folder there.

    Raises DataNotFound if the set has no download, its origin cannot be reached or sends more than
    `largest` bytes a file, and DataCorrupt
    (or pooch's ValueError) if what came is not what was expected; nothing is kept then.
    """
    data_set = registry.get(name)
    if not (data_set.archive or data_set.urls):
        raise registry.DataNotFound(f"{name} has no download; {data_set.how_to_get}")
    try:
        download = _Download(largest)
        if data_set.archive:
            _fetch_archive(data_set, download)
        else:
            _fetch_files(data_set, download)
    except (OSError, BadZipFile, zlib.error) as error:
        raise registry.DataNotFound(
            f"{name}: download failed ({error}). {data_set.by_hand}"
        ) from error
    return registry.cache_folder(name)


def _fetch_files(data_set, download):
    for file, url in data_set.urls.items():
        known_hash = f"sha256:{data_set.files[file]}"
        folder = registry.cache_folder(data_set.name)
        pooch.retrieve(url, known_hash, fname=file, path=folder, downloader=download)


def _fetch_archive(data_set, download):
    # A temporary folder, so that a bad archive is not taken for a good one next time.
    install, largest = _INSTALL[data_set.name]
    with TemporaryDirectory() as folder:
        archive = pooch.retrieve(data_set.archive, None, path=folder, downloader=download)
        original = Path(folder, "original")
        unpack(archive, original, largest)
        install(original)


def unpack(archive: Path | str, folder: Path, largest: Mapping[str, int]) -> None:
    """Write the named members of a zip file, and no others, into `folder`.

    Raises DataCorrupt for a member that is absent or has more bytes than `largest` says, whatever
    size the archive declares for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ZipFile(archive) as zipped:
        for name, limit in largest.items():
            if name not in zipped.namelist():
                raise registry.DataCorrupt(f"{archive}: there is no {name} in it")
            with zipped.open(name) as member:
                content = member.read(limit + 1)
            if len(content) > limit:
                raise registry.DataCorrupt(f"{archive}: {name} has more than {limit:,} bytes")
            Path(folder, Path(name).name).write_bytes(content)


class _Download:
    """Downloads as pooch does, but no more than so many bytes."""

    def __init__(self, largest):
        self._largest = largest
        self._left = largest
        self._stream = None

    def __call__(self, url, path, pooch_object):
        self._left = self._largest
        with open(path, "wb") as self._stream:
            pooch.HTTPDownloader()(url, self, pooch_object)

    def write(self, content):
        self._left -= len(content)
        if self._left < 0:
            raise OSError(f"more than {self._largest:,} bytes came, which no data set has")
        self._stream.write(content)

    def flush(self):
        self._stream.flush()
