"""The frames of many sequences, end to end, with what an autoregression looks back at."""

from typing import NamedTuple

import numpy as np

from ...checks import real_array
from ...protocol import own_copy

LARGEST = 1e100  # the square of what is larger, and of what is smaller than its inverse, is lost
FARTHEST = 1e4  # from 0, in spreads of a channel, where regressions on its values lose their digits


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

    def take(self, numbers):
        """The frames of these sequences."""
        parts = [np.arange(self.starts[n], self.starts[n + 1]) for n in numbers]
        rows = np.concatenate([np.arange(0), *parts])
        starts = np.cumsum([0, *map(len, parts)])
        return Frames(self.x[rows], self.design[rows], self.observed[rows], starts)


def make_frames(sequences, emission, context):
    """The `Frames` of checked sequences; the first `context` of each serve as lags alone."""
    if hasattr(emission, "standardised"):
        sequences = [emission.standardised(s) for s in sequences]
    order = emission.order
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


def read_sequences(given, context):
    """Copies of a list of sequences, or of (X, lengths), as float arrays (T_n, R), read-only.

    ValueError names the first unusable one. Masked frames are missing.
    """
    listed = _listed(given)
    checked = tuple(_read_one(n, sequence) for n, sequence in enumerate(listed))
    n = len(checked)
    if n > 1 and all(x.size == 1 for x in checked) and np.ndim(listed[0]) == 1:
        raise ValueError(
            f"{n} lists of one number: pass np.array(x) (to HMM, [np.array(x)]) if it is one "
            f"sequence of {n} frames, or (np.array(x), [1] * {n}) if {n} sequences of one"
        )
    channels = [sequence.shape[1] for sequence in checked]
    if len(set(channels)) != 1:
        raise ValueError(f"sequences must be some, of the same channels; got channels {channels}")
    short = [n for n, x in enumerate(checked) if len(x) <= context]
    if short:
        found = f"sequence {short[0]} has {len(checked[short[0]])} frames, of which the first"
        raise ValueError(
            f"{found} {context} are looked back at only: leave out the {len(short)} sequences of "
            f"fewer than {context + 1} frames, or lower order and context"
        )
    return checked


def one_or_more(x):
    """The sequences in x: one array (T,) or (T, R), or whatever `read_sequences` takes."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "O" and x.ndim == 1:
        x = list(x)
    if isinstance(x, tuple | list) and len(x) and not any(map(np.iterable, x)):
        x = np.asarray(x)
    return [x] if getattr(x, "ndim", 0) in (1, 2) else x


def _listed(given):
    """A list of sequences from one, or from (X, lengths)."""
    if not np.iterable(given) or isinstance(given, str | dict | set):
        raise ValueError(f"{given!r:.60} must be a list of sequences, arrays (T, R)")
    holds_arrays = isinstance(given, np.ndarray) and given.dtype.kind == "O"
    if getattr(given, "ndim", None) in (1, 2) and not holds_arrays:
        n, width = (*np.shape(given), 1)[:2]
        raise ValueError(
            f"one array {np.shape(given)} where a list of sequences is expected: pass [x] if it is "
            f"one sequence of {n} frames with {width} channels, or list(x) if its rows are {n} "
            f"sequences of {width} frames"
        )
    lengths = given[1] if isinstance(given, tuple) and len(given) == 2 else None
    if not np.iterable(lengths) or not all(isinstance(n, int | np.integer) for n in lengths):
        return list(given)
    x = _numbers("X", given[0])
    total = sum(lengths)
    if x.ndim == 1 and total != len(x):
        return list(given)
    if x.ndim != 2 or total != len(x) or min(lengths, default=0) < 1:
        raise ValueError(
            f"(X, lengths) takes a 2-d X and positive lengths that sum to its rows: X is "
            f"{x.shape} and lengths, {list(lengths)}, sum to {total}; pass a list [x1, x2] if "
            "these are two sequences"
        )
    return np.split(x, np.cumsum(lengths)[:-1])


def _read_one(number, sequence):
    name = f"sequence {number}"
    x = _numbers(name, sequence)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"{name} must be (T, R), got {np.shape(sequence)}")
    missing = np.isnan(x).all(axis=1)
    bad = np.flatnonzero(~missing & ~np.isfinite(x).all(axis=1))
    if bad.size:
        place = f"frame {bad[0]} of {name}"
        raise ValueError(f"{place}: a frame is finite, or wholly nan, or wholly masked, if missing")
    most = np.nanmax(np.abs(x), initial=0.0)
    if most > LARGEST:
        raise ValueError(f"{name} holds {most:.3g}, beyond {LARGEST:.0e}: rescale")
    return own_copy(x)


def _numbers(name, sequence):
    """A sequence as floats, nan where masked; refuses what would change on the way."""
    is_masked = np.ma.isMaskedArray(sequence)
    given = sequence.filled(0) if is_masked else sequence
    x = real_array(name, given, finite=False)
    _check_exact(name, np.asarray(given))
    if is_masked:
        x[np.ma.getmaskarray(sequence)] = np.nan
    return x


def _check_exact(name, x):
    """Refuses integers that floating point rounds."""
    for entry in x.ravel() if x.dtype == object else (x.min(initial=0), x.max(initial=0)):
        if isinstance(entry, int | np.integer) and abs(int(entry)) > 2**53:
            raise ValueError(
                f"{name} holds the integer {entry}, beyond 2^53: floating point would round it; "
                "subtract an offset first, or pass floats"
            )


def check_channels(sequences, emission):
    """Raise ValueError where a channel has nothing to fit."""
    x = np.concatenate(sequences)
    seen = x[~np.isnan(x[:, 0])]
    if not len(seen):
        raise ValueError("every frame is missing: there is nothing to fit")
    spread = np.ptp(seen, axis=0)
    channel = spread.argmin()
    if spread[channel] == 0:
        value = f"{seen[0, channel]:g} in every frame of every sequence"
        raise ValueError(f"channel {channel} is {value}: drop it")
    if spread[channel] < 1.0 / LARGEST:
        raise ValueError(f"channel {channel} varies by no more than {spread.min():.3g}: rescale it")
    distance = np.abs(seen).min(axis=0) / spread
    channel = distance.argmax()
    if distance[channel] > FARTHEST and not hasattr(emission, "standardised"):
        far = f"{distance[channel]:.3g} times its range from 0"
        raise ValueError(f"channel {channel} lies {far}: subtract its mean")


def check_observed(fold, observed):
    """Raise ValueError where a fold holds sites that are missing."""
    missing = fold[~observed[fold]]
    if len(missing):
        raise ValueError(f"the fold holds site {missing[0]}, which is not observed: leave it out")
