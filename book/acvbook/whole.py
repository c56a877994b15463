"""Files that are there whole or not at all, whenever their writer is stopped."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: os.PathLike | str) -> Iterator[Path]:
    """Yield the name of a draft; at the end it takes the place of `path`."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
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


def lock(folder: os.PathLike | str) -> int:
    """Wait until no other process has the folder, and keep it until this one ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor
