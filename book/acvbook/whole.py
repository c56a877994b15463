"""Files and folders that are there whole or not at all, whenever their writer is stopped and
however many write them.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: os.PathLike | str) -> Iterator[Path]:
    """Yield the name of a draft, this writer's own; at the end it takes the place of `path`."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write(path: os.PathLike | str, content: bytes | str) -> Path:
    """Write a file: a reader sees the old one or the whole new one."""
    with replacing(path) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


@contextmanager
def locked(folder: os.PathLike | str, who: str = "") -> Iterator[None]:
    """Let one process at a time in; the others wait, which `who` says if given."""
    descriptor = lock(folder, who)
    try:
        yield
    finally:
        os.close(descriptor)


def lock(folder: os.PathLike | str, who: str = "") -> int:
    """Lock a folder until the returned descriptor is closed, or its process ends however it may.

    The folder itself is locked, so that there is no lock file to be written or left behind.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if who:
            print(f"{who} is at work in {folder}: waiting for it to end", flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@contextmanager
def replacing_folder(folder: os.PathLike | str) -> Iterator[Path]:
    """Yield the name of a folder to be made; at the end it takes the place of `folder`.

    One writer at a time. After an error the old folder stays; after a crash between the two
    renamings `recover`, called here and by whoever reads the folder, brings it back.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft, old, _ = _beside(folder)
    with locked(folder.parent):
        _recover(folder)
        try:
            yield draft
            if folder.exists():
                folder.rename(old)
            draft.rename(folder)
        finally:
            _recover(folder)


def recover(folder: os.PathLike | str) -> None:
    """Bring back a folder whose replacement was stopped halfway, and remove what that left."""
    folder = Path(folder)
    if any(path.exists() for path in _beside(folder)):
        with locked(folder.parent):
            _recover(folder)


def _recover(folder):
    draft, old, rubbish = _beside(folder)
    if old.exists() and folder.exists():
        shutil.rmtree(rubbish, ignore_errors=True)
        old.rename(rubbish)  # at once: half of it must never be taken for the whole
    elif old.exists():
        old.rename(folder)
    for path in (draft, rubbish):
        shutil.rmtree(path, ignore_errors=True)


def _beside(folder):
    """The names of the draft, the old folder, and the old one as it is being removed."""
    return [folder.with_name(f".{folder.name}.{kind}") for kind in ("draft", "old", "rubbish")]
