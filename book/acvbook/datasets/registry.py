"""Which data sets there are, where their files lie here, and whether they are the right ones."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

_CHECKOUT = Path(__file__).parents[3]

# The sha256 of each file, as "set/file", that this process looked for; None where it was not found.
looked_for: dict[str, str | None] = {}


class DataNotFound(FileNotFoundError):
    """A file is nowhere to be found; the message names the places and the way to get it."""


class DataCorrupt(ValueError):
    """A file is not what the registry says; the message has both sha256 and the remedy."""


@dataclass(frozen=True)
class DataSet:
    """One table of `registry.toml`: `files` maps each canonical file to its sha256."""

    name: str
    title: str
    source: str
    licence: str
    citation: str
    by_hand: str
    files: Mapping[str, str]
    archive: str = ""
    urls: Mapping[str, str] = field(default_factory=dict)

    @property
    def how_to_get(self) -> str:
        """The command that downloads the set or, where there is none, what to do by hand."""
        if self.archive or self.urls:
            return f"python -m acvbook.datasets fetch {self.name}"
        return f"by hand from {self.source}. {self.by_hand}"


class Shown:
    """A data class whose fields `of_rows` have one entry a row; `noun` says what these are."""

    of_rows: ClassVar[tuple[str, ...]]
    noun: ClassVar[str] = "rows"

    def __len__(self) -> int:
        return len(getattr(self, self.of_rows[0]))

    def __repr__(self) -> str:
        size = f"{self.name}: {len(self):,} {self.noun}"
        return f"{type(self).__name__}({size}, {self.provenance})"


class Rows(Shown):
    """One of which any rows can be taken."""

    def take(self, rows: Any) -> Self:
        """These rows, in this order, with the provenance and sha256 of the whole."""
        return replace(self, **{name: getattr(self, name)[rows] for name in self.of_rows})


@cache
def data_sets() -> dict[str, DataSet]:
    """Every data set of the registry, by name."""
    tables = tomllib.loads(Path(__file__).with_name("registry.toml").read_text(encoding="utf-8"))
    return {name: DataSet(name, **table) for name, table in tables.items()}


def get(name: str) -> DataSet:
    """The registry's entry for `name`; KeyError, with the known names, if there is none."""
    if name not in data_sets():
        raise KeyError(f"no data set {name!r}; the registry has {', '.join(data_sets())}")
    return data_sets()[name]


def cache_folder(name: str) -> Path:
    """Where downloads are kept: `data/cache` of a checkout, else the user's cache directory."""
    if (_CHECKOUT / "pyproject.toml").is_file():
        return _CHECKOUT / "data" / "cache" / name
    import pooch

    return pooch.os_cache("acvlib") / name


def folders(name: str) -> list[Path]:
    """The folders in which files of `name` are looked for, in order.

    Raises NotADirectoryError if `$ACVLIB_DATA` is set to no directory: a typing error there must
    not end in simulated data.
    """
    root = os.environ.get("ACVLIB_DATA")
    if root and not Path(root).is_dir():
        raise NotADirectoryError(
            f"ACVLIB_DATA={root} is not a directory (working directory: {Path.cwd()})"
        )
    return ([Path(root) / name] if root else []) + [cache_folder(name)]


def find(name: str, file: str) -> Path:
    """The verified path of one canonical file.

    Raises DataNotFound, or DataCorrupt if the first copy found has the wrong sha256: a bad copy is
    never passed over for a later one.
    """
    path = _first_copy(name, file)
    looked_for[f"{name}/{file}"] = path and get(name).files[file]
    if not path:
        places = " or ".join(str(folder) for folder in folders(name))
        raise DataNotFound(f"{name}: no {file} in {places}. To get it: {get(name).how_to_get}")
    actual, expected = file_sha256(path), get(name).files[file]
    if actual != expected:
        remedy = f"Delete the file and get it again: {get(name).how_to_get}"
        raise DataCorrupt(f"{path}: sha256 is {actual}, expected {expected}. {remedy}")
    return path


def sha256_here(name: str, file: str) -> str | None:
    """The sha256 of the copy of a file that `find` would take; None where there is none."""
    path = _first_copy(name, file)
    return path and file_sha256(path)


def _first_copy(name, file):
    paths = (folder / file for folder in folders(name))
    return next((path for path in paths if path.is_file()), None)


def checksum(*arrays: np.ndarray) -> str:
    """The sha256 of the bytes of arrays, one after another."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
