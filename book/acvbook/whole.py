"""Files that are there whole or not at all, whenever their writer is stopped."""

import secrets
from pathlib import Path


def write(path: Path | str, content: bytes | str) -> Path:
    """Write a file by way of a draft: a reader sees the old one or the whole new one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path
