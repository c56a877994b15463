"""The frames of many sequences, end to end, with what an autoregression looks back at."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Frames(NamedTuple):
    """The M frames that a model predicts, of N sequences one after another.

    x (M, R); design (M, p R + 1): the p frames before, the newest first, then a 1
    observed (M,): False where the frame or one of its lags is missing (both are then 0)
    starts (N + 1,): sequence n is starts[n]:starts[n + 1]
    """

    x: np.ndarray
    design: np.ndarray
    observed: np.ndarray
    starts: np.ndarray

    @property
    def n_channels(self) -> int:
        """R."""
        return self.x.shape[1]

    def take(self, numbers: Iterable[int]) -> "Frames":
        """The frames of these sequences."""
        pieces = [np.arange(self.starts[n], self.starts[n + 1]) for n in numbers]
        rows = np.concatenate(pieces)
        starts = np.cumsum([0, *map(len, pieces)])
        return Frames(self.x[rows], self.design[rows], self.observed[rows], starts)


def make_frames(sequences: Sequence[np.ndarray], order: int, context: int) -> Frames:
    """The `Frames` of checked sequences; the first `context` of each serve as lags alone."""
    x = np.concatenate([s[context:] for s in sequences])
    columns = [np.ones((len(x), 1))]
    for m in range(order, 0, -1):
        lag = np.concatenate([s[context - m : len(s) - m] for s in sequences])
        columns.insert(0, lag)
    design = np.concatenate(columns, axis=1)
    observed = np.isfinite(x).all(axis=1) & np.isfinite(design).all(axis=1)
    x[~observed] = 0.0
    design[~observed] = 0.0
    starts = np.cumsum([0, *(len(s) - context for s in sequences)])
    return Frames(x, design, observed, starts)


def check_sequences(sequences: Iterable[np.ndarray], context: int) -> list[np.ndarray]:
    """Copies of the sequences as float arrays (T_n, R); ValueError names the first unusable one."""
    checked = [_check_one(number, sequence) for number, sequence in enumerate(sequences)]
    channels = [sequence.shape[1] for sequence in checked]
    if len(set(channels)) != 1:
        raise ValueError(f"sequences must have the same channels, got {channels}")
    short = [(n, len(s)) for n, s in enumerate(checked) if len(s) <= context]
    if short:
        number, length = short[0]
        raise ValueError(
            f"sequence {number} has {length} frames, of which the first {context} are looked back "
            f"at only: leave out the {len(short)} sequences of fewer than {context + 1} frames, or "
            "lower order and context"
        )
    _check_channels(np.concatenate(checked))
    return checked


def _check_one(number, sequence):
    x = np.array(sequence, float)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"sequence {number} must be (T, R), got {np.shape(sequence)}")
    missing = np.isnan(x)
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    bad = np.flatnonzero(partly | np.isinf(x).any(axis=1))
    if bad.size:
        raise ValueError(
            f"frame {bad[0]} of sequence {number}: a frame is finite, or wholly nan where missing"
        )
    x.setflags(write=False)
    return x


def _check_channels(x):
    x = x[~np.isnan(x[:, 0])]
    if not len(x):
        raise ValueError("every frame is missing: there is nothing to fit")
    constant = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if constant.size:
        raise ValueError(
            f"channel {constant[0]} is {x[0, constant[0]]:g} in every frame of every sequence: "
            "drop it"
        )
