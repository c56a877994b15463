"""The frames of many sequences, end to end, with what an autoregression looks back at."""

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
    def n_channels(self):
        return self.x.shape[1]

    @property
    def n_sequences(self):
        return len(self.starts) - 1

    def take(self, numbers):
        """The frames of these sequences."""
        parts = [np.arange(self.starts[n], self.starts[n + 1]) for n in numbers]
        rows = np.concatenate(parts)
        starts = np.cumsum([0, *map(len, parts)])
        return Frames(self.x[rows], self.design[rows], self.observed[rows], starts)


def make_frames(sequences, order, context):
    """The `Frames` of checked sequences; the first `context` of each serve as lags alone."""
    x = np.concatenate([s[context:] for s in sequences])
    columns = []
    for m in range(1, order + 1):
        columns.append(np.concatenate([s[context - m : len(s) - m] for s in sequences]))
    design = np.column_stack([*columns, np.ones(len(x))])
    observed = np.isfinite(np.column_stack([x, design])).all(axis=1)
    x[~observed] = 0.0
    design[~observed] = 0.0
    starts = np.cumsum([0, *(len(s) - context for s in sequences)])
    return Frames(x, design, observed, starts)


def check_sequences(sequences, context):
    """Copies of the sequences as float arrays (T_n, R); ValueError names the first unusable one."""
    checked = [_check_one(number, sequence) for number, sequence in enumerate(sequences)]
    channels = [sequence.shape[1] for sequence in checked]
    if len(set(channels)) != 1:
        raise ValueError(f"sequences must have the same channels, got {channels}")
    short = [n for n, sequence in enumerate(checked) if len(sequence) <= context]
    if short:
        raise ValueError(
            f"sequence {short[0]} has {len(checked[short[0]])} frames, of which the first "
            f"{context} are looked back at only: leave out the {len(short)} sequences of fewer "
            f"than {context + 1} frames, or lower order and context"
        )
    _check_channels(np.concatenate(checked))
    return checked


def _check_one(number, sequence):
    x = np.array(sequence, float)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"sequence {number} must be (T, R), got {np.shape(sequence)}")
    missing = np.isnan(x).all(axis=1)
    bad = np.flatnonzero(~missing & ~np.isfinite(x).all(axis=1))
    if bad.size:
        raise ValueError(
            f"frame {bad[0]} of sequence {number}: a frame is finite, or wholly nan where missing"
        )
    x.setflags(write=False)
    return x


def _check_channels(x):
    seen = x[~np.isnan(x[:, 0])]
    if not len(seen):
        raise ValueError("every frame is missing: there is nothing to fit")
    constant = np.flatnonzero(np.ptp(seen, axis=0) == 0)
    if constant.size:
        channel = constant[0]
        raise ValueError(
            f"channel {channel} is {seen[0, channel]:g} in every frame of every sequence: drop it"
        )
