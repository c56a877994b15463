"""Finished folds in a file, from which a run that was stopped goes on."""

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

SECONDS = 2.0  # at least, between two savings
SHARE = 20  # and so many times what the last one took


def digest(parts: Iterable[Any]) -> str:
    """A checksum of arrays, numbers and text, which is the same in every process."""
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        array = np.ascontiguousarray(part)
        total.update(f"{array.dtype}{array.shape}".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


class Checkpoint:
    """A file of arrays, replaced whole every few seconds.

    work: {part: digest} of what is computed; the file of another work is refused.
    """

    def __init__(self, path: str | os.PathLike, work: dict[str, str]):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(
                f"checkpoint must be a path; what was given is of type {type(path).__name__}"
            )
        self.path = Path(path)
        self._work = work
        self._due = 0.0
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise ValueError(f"checkpoint {self.path}: must be a file in a folder there is")

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays that were saved last, none if there is no file yet.

        Raises ValueError, naming what differs, if they are of another work.
        """
        if not self.path.exists():
            return {}
        try:
            with np.load(self.path) as file:
                found = dict(file)
        except (ValueError, EOFError, BadZipFile) as error:
            raise ValueError(f"{self.path} is no checkpoint of acvlib: {error}") from None
        check_same(
            self._work, {part: str(found.pop(f"of_{part}", "")) for part in self._work}, self
        )
        return found

    def save(self, now: bool = False, **arrays: np.ndarray) -> None:
        """Replace the file, by renaming a whole one; not, unless `now`, if that was just done."""
        started = time.monotonic()
        if not now and started < self._due:
            return
        labels: dict[str, Any] = {f"of_{part}": value for part, value in self._work.items()}
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with open(new, "wb") as file:
                np.savez(file, **(labels | arrays))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
        finally:
            new.unlink(missing_ok=True)
        ended = time.monotonic()
        self._due = ended + max(SECONDS, SHARE * (ended - started))

    def __str__(self):
        return f"checkpoint {self.path}"


def check_same(work: dict[str, str], found: dict[str, str], where: Any) -> None:
    """Raise ValueError if what was found is not of this work."""
    others = [part for part, value in work.items() if found.get(part) != value]
    if others:
        raise ValueError(
            f"{where} is of another {' and '.join(others)}: it does not fit this call. "
            "Give another one, or none to start anew"
        )
