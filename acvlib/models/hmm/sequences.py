"""The frames of many sequences, end to end, with what an autoregression looks back at."""

from typing import NamedTuple

import numpy as np

from ...checks import real_array
from ...model import own_copy

LARGEST = 1e100  # the square of what is larger, and of what is smaller than its inverse, is lost
WINDOW = 5  # frames on either side that count as near


class Frames(NamedTuple):
    """The M frames that a model predicts, of N sequences one after another.

    x (M, R), as the emission takes it; seen (M, R): 0 where a channel is missing, whose x is 0
    design (M, q): the p frames before, the newest first, then inputs, then a 1
    observed (M,): False where all channels, a lag or an input are missing (all are then 0)
    starts (N + 1,): sequence n is starts[n]:starts[n + 1]
    """

    x: np.ndarray
    seen: np.ndarray
    design: np.ndarray
    observed: np.ndarray
    starts: np.ndarray

    @property
    def n_channels(self):
        return self.x.shape[1]

    def only(self, kept):
        """The same frames, missing where not kept (M,)."""
        x, seen, design = ((array.T * kept).T for array in self[:3])
        return self._replace(x=x, seen=seen, design=design, observed=self.observed & kept)

    def take(self, numbers):
        """The frames of these sequences."""
        parts = [np.arange(self.starts[n], self.starts[n + 1]) for n in numbers]
        rows = np.concatenate([np.arange(0), *parts])
        return self.rows(rows, np.cumsum([0, *map(len, parts)]))

    def rows(self, rows, starts=None):
        """Some frames; without `starts`, of no sequence."""
        if isinstance(rows, slice):
            return Frames(*(array[rows] for array in self[:4]), starts)
        return Frames(*(array.take(rows, axis=0) for array in self[:4]), starts)


def make_frames(sequences, emission, context):
    """The `Frames` of checked sequences; the first `context` of each serve as lags alone."""
    n_channels = sequences[0].shape[1] - emission.n_inputs
    _check_missing(sequences, n_channels, emission)
    read = [emission.prepared(s[:, :n_channels]) for s in sequences]
    columns = []
    for lag in range(emission.order + 1):
        columns.append(np.concatenate([s[context - lag : len(s) - lag] for s in read]))
    x, *lags = columns
    inputs = np.concatenate([s[context:, n_channels:] for s in sequences])
    design = np.column_stack([*lags, emission.prepared_inputs(inputs), np.ones(len(x))])
    seen = np.isfinite(x)
    observed = seen.any(axis=1) & np.isfinite(design).all(axis=1)
    seen &= observed[:, None]
    x = np.where(seen, x, 0.0)
    design[~observed] = 0.0
    starts = np.cumsum([0, *(len(s) - context for s in sequences)])
    x, seen = np.asfortranarray(x), np.asfortranarray(seen, float)
    return Frames(x, seen, design, observed, starts)


def _check_missing(sequences, n_channels, emission):
    """Raise ValueError where a frame misses a part of its channels, and the emission takes none."""
    for number, sequence in enumerate(sequences):
        missing = np.isnan(sequence[:, :n_channels])
        bad = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
        if bad.size and not emission.misses_channels:
            raise ValueError(
                f"frame {bad[0]} of sequence {number}: a frame is finite, or wholly nan, or wholly "
                f"masked, if missing: {type(emission).__name__} emissions have no density of "
                "single channels, as diagonal Gaussian, Poisson and mixtures of these have"
            )


def check_codes(x, n_codes=None):
    """Raise ValueError unless all of x are whole numbers 0 ... n_codes - 1, or missing."""
    bad = np.argwhere((x < 0) | (x > 2**53) | (x != np.floor(x)) & ~np.isnan(x))
    if bad.size:
        frame, channel = bad[0]
        found = f"x holds {x[frame, channel]:g}, channel {channel} of frame {frame}"
        raise ValueError(f"{found}: whole numbers from 0 to 2^53 are needed, nan where missing")
    if n_codes is not None and np.nanmax(x, initial=0) >= n_codes:
        raise ValueError(f"x holds {np.nanmax(x):g}: only 0 ... {n_codes - 1} are expected")


def local_means(rows, starts):
    """Means (M, F) of rows (M, F) over the frames near each in its sequence."""
    sums = np.vstack([np.zeros(rows.shape[1]), np.cumsum(rows, axis=0)])
    frame = np.arange(len(rows))
    sequence = np.searchsorted(starts, frame, side="right") - 1
    low = np.maximum(frame - WINDOW, starts[sequence])
    high = np.minimum(frame + WINDOW + 1, starts[sequence + 1])
    return (sums[high] - sums[low]) / (high - low)[:, None]


def read_sequences(given, context):
    """Copies of a list of sequences, or of (X, lengths), as float arrays (T_n, R), read-only.

    ValueError names the first unusable one. Masked frames are missing.
    """
    listed = _listed(given)
    checked = tuple(_read_one(n, sequence) for n, sequence in enumerate(listed))
    _check_readings(listed)
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


def _check_readings(listed):
    """Refuse a list whose entries may be frames or sequences, with both readings."""
    n = len(listed)
    are_lists = all(isinstance(x, list | tuple) for x in listed)
    sizes = {len(x) if np.ndim(x) == 1 else 0 for x in listed}
    if n > 1 and len(sizes) == 1 and (sizes == {1} or are_lists and sizes != {0}):
        (m,) = sizes
        numbers = f"{m} number{'s' * (m > 1)}"
        raise ValueError(
            f"{n} lists of {numbers}: pass np.array(x) (to HMM, [np.array(x)]) if it is one "
            f"sequence of {n} frames, or (np.reshape(x, (-1, 1)), [{m}] * {n}) if {n} sequences "
            f"of {numbers}"
        )


def one_or_more(x):
    """The sequences in x: one array (T,) or (T, R), or whatever `read_sequences` takes."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "O" and x.ndim == 1:
        x = list(x)
    if isinstance(x, tuple | list) and len(x) and not any(map(np.iterable, x)):
        x = np.asarray(x)
    return [x] if getattr(x, "ndim", 0) in (1, 2) else x


def with_inputs(given, inputs, intercept):
    """Sequences [y, u] (T_n, R + q), and q. Raises ValueError where y and inputs do not match."""
    y = read_sequences(given, 0)
    u = read_sequences(inputs, 0)
    if [len(one) for one in y] != [len(one) for one in u]:
        lengths = f"{[len(one) for one in y]} and {[len(one) for one in u]}"
        raise ValueError(f"y and inputs must have the same lengths; got {lengths:.200}")
    every = np.concatenate(u)
    constant = np.flatnonzero(np.nanmax(every, axis=0) == np.nanmin(every, axis=0))
    if constant.size and intercept:
        column = f"inputs column {constant[0]} is constant"
        raise ValueError(f"{column}, as the intercept is: drop it, or pass intercept=False")
    return [np.hstack(pair) for pair in zip(y, u, strict=True)], every.shape[1]


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
    lengths = _whole_numbers(given[1]) if isinstance(given, tuple) and len(given) == 2 else None
    if lengths is None:
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


def _whole_numbers(lengths):
    """Lengths, of any type, as a list; None for what cannot be any."""
    if np.ndim(lengths) != 1 or not len(lengths):
        return None
    try:
        numbers = np.asarray(lengths, float)
    except (TypeError, ValueError):
        return None
    return numbers.astype(int).tolist() if (numbers == np.floor(numbers)).all() else None


def _read_one(number, sequence):
    name = f"sequence {number}"
    x = _numbers(name, sequence)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"{name} must be (T, R), got {np.shape(sequence)}")
    bad = np.flatnonzero(np.isinf(x).any(axis=1))
    if bad.size:
        raise ValueError(f"frame {bad[0]} of {name} is infinite: nan, or masked, is missing")
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


def check_channels(x):
    """Raise ValueError where a channel of frames (T, R) has nothing to fit."""
    empty = np.isnan(x).all(axis=0)
    if empty.all():
        raise ValueError("every frame is missing: there is nothing to fit")
    if empty.any():
        raise ValueError(f"channel {empty.argmax()} is missing in every frame: drop it")
    low = np.nanmin(x, axis=0)
    spread = np.nanmax(x, axis=0) - low
    channel = spread.argmin()
    if spread[channel] == 0:
        value = f"{low[channel]:g} in every frame of every sequence"
        raise ValueError(f"channel {channel} is {value}: drop it")
    if spread[channel] < 1.0 / LARGEST:
        raise ValueError(f"channel {channel} varies by no more than {spread.min():.3g}: rescale it")


def check_observed(fold, observed):
    """Raise ValueError where a fold holds sites that are missing."""
    missing = fold[~observed[fold]]
    if len(missing):
        raise ValueError(f"the fold holds site {missing[0]}, which is not observed: leave it out")
