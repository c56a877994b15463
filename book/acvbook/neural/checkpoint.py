"""Checkpoints: written whole or not at all, and checked when read."""

import hashlib
import io
from pathlib import Path

import torch

from ..whole import write

_MAGIC = b"acvlib-checkpoint-1 "


class CheckpointCorrupt(ValueError):
    """A checkpoint is damaged or of another run; the message says what to do."""


def save(path, state):
    """Write a dict of tensors and plain values, behind its sha256,
    by way of a draft that is then renamed.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    write(path, _MAGIC + hashlib.sha256(content).hexdigest().encode() + content)


def load(path, expected_key):
    """The state saved under `key`; None where there is no file. Raises CheckpointCorrupt."""
    path = Path(path)
    if not path.is_file():
        return None
    whole, head = path.read_bytes(), len(_MAGIC) + 64
    content = whole[head:]
    if whole[:head] != _MAGIC + hashlib.sha256(content).hexdigest().encode():
        raise CheckpointCorrupt(
            f"{path} is damaged ({len(whole):,} bytes): delete it, and training starts anew"
        )
    state = torch.load(io.BytesIO(content), weights_only=True)
    if state["key"] != expected_key:
        raise CheckpointCorrupt(
            f"{path} belongs to other data or settings ({state['key']}): use another folder"
        )
    return state
