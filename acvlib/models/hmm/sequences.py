"""The frames of many sequences, end to end, with what an autoregression looks back at."""

from typing import NamedTuple

import numpy as np


class Frames(NamedTuple):
    """The M frames that a model predicts, of N sequences one after another.

    x (M, R); design (M, p R + 1): the p frames before, the newest first, then a 1; observed (M,), False where the
    frame or one of its lags is missing (they are then 0); starts (N + 1,): sequence n is starts[n]:starts[n+1].
    """

    x: np.ndarray
    design: np.ndarray
    observed: np.ndarray
    starts: np.ndarray

    def take(self, numbers):
        """The frames of these sequences."""
        pieces = [np.arange(self.starts[n], self.starts[n + 1]) for n in numbers]
        rows, starts = np.concatenate(pieces), np.cumsum([0, *map(len, pieces)])
        return Frames(self.x[rows], self.design[rows], self.observed[rows], starts)


def make_frames(sequences, order, context):
    """The `Frames` of checked sequences; the first `context` >= order of each serve as lags alone."""
    x = np.concatenate([s[context:] for s in sequences])
    lags = [
        np.concatenate([s[context - m : len(s) - m] for s in sequences])
        for m in range(1, order + 1)
    ]
    design = np.column_stack([*lags, np.ones(len(x))])
    observed = ~(np.isnan(x).any(axis=1) | np.isnan(design).any(axis=1))
    starts = np.cumsum([0, *(len(s) - context for s in sequences)])
    return Frames(
        *(np.where(observed[:, None], part, 0.0) for part in (x, design)), observed, starts
    )


def check_sequences(sequences, context):
    """The sequences as float arrays (T_n, R); ValueError names the first that cannot be used."""
    checked = [_one(number, s) for number, s in enumerate(sequences)]
    if not checked or len({s.shape[1] for s in checked}) > 1:
        raise ValueError(
            f"sequences must have the same channels, got {[s.shape[1] for s in checked]}"
        )
    short = [(n, len(s)) for n, s in enumerate(checked) if len(s) <= context]
    if short:
        raise ValueError(
            f"sequence {short[0][0]} has {short[0][1]} frames, of which the first {context} are looked back at only: "
            f"leave out the {len(short)} sequences of fewer than {context + 1} frames, or lower order and context"
        )
    _check_channels(np.concatenate(checked))
    return checked


def _one(number, sequence):
    x = np.asarray(sequence, float)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"sequence {number} must be (T, R), got {np.shape(sequence)}")
    missing = np.isnan(x)
    bad = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1) | np.isinf(x).any(axis=1))
    if bad.size:
        raise ValueError(
            f"frame {bad[0]} of sequence {number}: a frame is finite, or wholly nan where it is missing"
        )
    return x


def _check_channels(x):
    x = x[~np.isnan(x[:, 0])]
    if not len(x):
        raise ValueError("every frame is missing: there is nothing to fit")
    constant = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if constant.size:
        raise ValueError(
            f"channel {constant[0]} is {x[0, constant[0]]:g} in every frame of every sequence: drop it"
        )
