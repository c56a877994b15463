"""The frames of many sequences, end to end, with what an autoregression looks back at."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...checks import (
    Tables,
    in_columns_of,
    in_order_of,
    index_of,
    indices_of,
    read_only,
    real_array,
    shared_columns,
)

LARGEST = 1e100  # the square of what is larger, and of what is smaller than its inverse, is lost


class Frames(NamedTuple):
    """The M frames that a model predicts, of N sequences one after another.

    x (M, R), as the emission takes it; seen (M, R): 0 where a channel is missing, whose x is 0
    design (M, q): the p frames before, the newest first, then inputs, then a 1
    observed (M,): False where all channels, a lag or an input are missing (all are then 0)
    starts (N + 1,): sequence n is starts[n]:starts[n + 1]
    states (M,): known ones, -1 where unknown; None where none is known
    """

    x: np.ndarray
    seen: np.ndarray
    design: np.ndarray
    observed: np.ndarray
    starts: Any
    states: np.ndarray | None = None

    @property
    def n_channels(self) -> int:
        return self.x.shape[1]

    def only(self, kept: np.ndarray) -> "Frames":
        """The same frames, missing where not kept (M,)."""
        x, seen, design = ((array.T * kept).T for array in self[:3])
        return Frames(x, seen, design, self.observed & kept, self.starts, self.states)

    def take(self, numbers: Any) -> "Frames":
        """The frames of these sequences."""
        parts = [np.arange(self.starts[n], self.starts[n + 1]) for n in numbers]
        rows = np.concatenate([np.arange(0), *parts])
        return self.rows(rows, np.cumsum([0, *map(len, parts)]))

    def rows(self, rows: np.ndarray, starts: np.ndarray | None = None) -> "Frames":
        """Some frames; without `starts`, of no sequence."""
        x, seen, design, observed = (array.take(rows, axis=0) for array in self[:4])
        states = None if self.states is None else self.states[rows]
        return Frames(x, seen, design, observed, starts, states)

    def ruled_out(self, n_states: int) -> np.ndarray:
        """Which states (M, K) contradict known ones."""
        return (self.states >= 0)[:, None] & (self.states[:, None] != np.arange(n_states))


def make_frames(sequences: Sequence[np.ndarray], emission: Any, context: int) -> Frames:
    """The `Frames` of checked sequences; the first `context` of each serve as lags alone."""
    n_channels = sequences[0].shape[1] - emission.n_inputs
    channels = [sequence[:, :n_channels] for sequence in sequences]
    for columns, part in emission.parts:
        if not part.misses_channels:
            _check_whole_frames([x[:, columns] for x in channels], type(part).__name__)
    read = [emission.prepared(x) for x in channels]
    columns = []
    for lag in range(emission.order + 1):
        columns.append(np.concatenate([x[context - lag : len(x) - lag] for x in read]))
    x, *lags = columns
    inputs = np.concatenate([sequence[context:, n_channels:] for sequence in sequences])
    design = np.column_stack([*lags, emission.prepared_inputs(inputs), np.ones(len(x))])
    seen = np.isfinite(x)
    observed = seen.any(axis=1) & np.isfinite(design).all(axis=1)
    seen &= observed[:, None]
    x = np.where(seen, x, 0.0)
    design[~observed] = 0.0
    starts = np.cumsum([0, *(len(sequence) - context for sequence in sequences)])
    return Frames(np.asfortranarray(x), np.asfortranarray(seen, float), design, observed, starts)


def _check_whole_frames(channels, name):
    for number, x in enumerate(channels):
        missing = np.isnan(x)
        bad = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
        if bad.size:
            raise ValueError(
                f"frame {bad[0]} of sequence {number}: a frame is finite, or wholly nan, or wholly "
                f"masked, if missing: {name} emissions have no density of single channels, as "
                "diagonal Gaussian, Poisson and mixtures of these have"
            )


def read_sequences(data: Any, context: int, columns: list | None = None) -> Tables:
    """Copies of a list of sequences, or of (X, lengths), as float arrays (T_n, R), read-only.

    ValueError names the first unusable one. Masked frames are missing. Columns with names, as in
    pandas, are put in the order of `columns`, or of the first sequence.
    """
    listed = listed_sequences(data)
    columns = columns or shared_columns(data, listed)
    listed = [in_columns_of(columns, f"sequence {n}", x) for n, x in enumerate(listed)]
    read = tuple(_read_one(f"sequence {n}", x) for n, x in enumerate(listed))
    _check_readings(listed)
    channels = [x.shape[1] for x in read]
    if len(set(channels)) != 1:
        raise ValueError(f"sequences must be some, of the same channels; got channels {channels}")
    short = [n for n, x in enumerate(read) if len(x) <= context]
    if short:
        size = f"sequence {short[0]} has {len(read[short[0]])} frames, of which the first"
        raise ValueError(
            f"{size} {context} are looked back at only: leave out the {len(short)} sequences of "
            f"fewer than {context + 1} frames, or lower order and context"
        )
    indices = indices_of(data if isinstance(data, Tables) else listed)
    return Tables(read).named(columns, indices, names_of(data, len(read)))


def names_of(data: Any, n: int) -> Any:
    """The names of n sequences: the index of their lengths, as of pandas."""
    lengths = data[-1] if isinstance(data, tuple) else None
    is_series = hasattr(lengths, "loc") and lengths.shape == (n,)
    return lengths.index if is_series else index_of(data)


def one_or_more(x: Any) -> Any:
    """The sequences in x: one array (T,) or (T, R), or whatever `read_sequences` takes."""
    if isinstance(x, tuple | list) and len(x) and not any(map(np.iterable, x)):
        x = np.asarray(x)
    return [x] if len(getattr(x, "shape", ())) in (1, 2) and not _holds_sequences(x) else x


def _holds_sequences(x):
    """Whether an array or a Series is a list of sequences."""
    return str(getattr(x, "dtype", "")) == "object" and x.ndim == 1 and any(map(np.iterable, x))


def read_known_states(known: Any, sequences: Tables, n_states: int) -> tuple | None:
    """Read (T_n,) of each sequence, nan where unknown, or None. ValueError names what is wrong."""
    name = "known_states"
    if known is None:
        return None
    if not np.iterable(known) or isinstance(known, str | dict | set) or hasattr(known, "columns"):
        raise ValueError(f"{name} = {known!r:.60}: give an array of states for each sequence")
    lengths = [len(x) for x in sequences]
    if any(z is not None and np.ndim(z) == 0 for z in known):  # all frames, end to end
        every = _states(name, sequences.names_of_rows(), known, n_states, sum(lengths))
        states = np.split(every, np.cumsum(lengths)[:-1])
    else:
        listed = list(in_order_of(sequences.names, name, known))
        if len(listed) != len(lengths):
            told = f"{name} are of {len(listed)} sequences, not {len(lengths)}"
            raise ValueError(f"{told}: give (T_n,), or None, for each")
        each = enumerate(zip(sequences.indices, listed, lengths, strict=True))
        states = [_states(f"{name}[{n}]", i, z, n_states, length) for n, (i, z, length) in each]
    return None if all(np.isnan(z).all() for z in states) else tuple(map(read_only, states))


def _states(name, index, values, n_states, length):
    """Numbers (length,) of states, nan where unknown or where there are no values."""
    if values is None:
        return np.full(length, np.nan)
    labels = {str(z) for z in np.ravel(np.asarray(values, object)) if isinstance(z, str)}
    if labels:
        numbers = {label: number for number, label in enumerate(sorted(labels))}
        remedy = f"number them, as by pandas.Series(labels).map({numbers}), which is nan elsewhere"
        raise ValueError(f"{name} holds labels: {remedy}")
    states = _numbers(name, in_order_of(index, name, values))
    if states.shape != (length,):
        raise ValueError(f"{name} of shape {states.shape} must be ({length},), nan where unknown")
    is_state = (states >= 0) & (states < n_states) & (states == np.floor(states))
    wrong = np.flatnonzero(~is_state & ~np.isnan(states))
    if wrong.size:
        wanted = f"whole numbers from 0 to {n_states - 1}, nan or masked where unknown"
        raise ValueError(f"{name} is {states[wrong[0]]:g} at frame {wrong[0]}: must be {wanted}")
    return states


def listed_sequences(data: Any) -> list:
    """A list of sequences from one, or from (X, lengths)."""
    if not np.iterable(data) or isinstance(data, str | dict | set):
        raise ValueError(f"{data!r:.60} must be a list of sequences, arrays (T, R)")
    shape = getattr(data, "shape", ())
    if len(shape) in (1, 2) and not _holds_sequences(data):
        n, width = (*shape, 1)[:2]
        raise ValueError(
            f"one array {shape} where a list of sequences is expected: pass [x] if it is "
            f"one sequence of {n} frames with {width} channels, or list(x) if its rows are {n} "
            f"sequences of {width} frames"
        )
    if isinstance(data, tuple) and len(data) == 2:
        x, lengths = _numbers("X", data[0]), _numbers("lengths", data[1])
        total = lengths.sum()
        gone = np.ma.getmaskarray(data[1])
        are_whole = lengths.ndim == 1 and (gone | (lengths == np.floor(lengths))).all()
        if are_whole and x.ndim == 2 and gone.any():
            raise ValueError(
                f"lengths {data[1]} are masked: give all as numbers, or, if these are two "
                "sequences, a list [x1, x2]"
            )
        if are_whole and (x.ndim == 2 or total == len(x)):
            lengths = lengths.astype(int)
            if x.ndim != 2 or total != len(x) or lengths.min() < 1:
                raise ValueError(
                    f"(X, lengths) takes a 2-d X and positive lengths that sum to its rows: X is "
                    f"{x.shape} and lengths, {lengths.tolist()}, sum to {total:g}; pass a list "
                    "[x1, x2] if these are two sequences"
                )
            _check_cuts(index_of(data[0]), index_of(data[1]), lengths)
            rows = getattr(data[0], "iloc", data[0]) if hasattr(data[0], "columns") else x
            return [rows[a:b] for a, b in pairwise([0, *np.cumsum(lengths)])]
    return list(data)


def _check_cuts(rows, names, lengths):
    """Raise ValueError where a level of an index of rows has the sequences in another order."""
    if rows is None or names is None:
        return
    levels = [rows.get_level_values(level) for level in range(rows.nlevels)]
    levels = [level for level in levels if {*level.unique()} == {*names}]
    if levels and not any([*level] == [*names.repeat(lengths)] for level in levels):
        told = f"{list(levels[0].unique())} in X and {list(names)} in lengths"
        raise ValueError(f"sequences come as {told:.200}: sort them alike, as by .loc")


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


def _numbers(name, x):
    """A copy as floats, nan where masked."""
    missing = np.ma.getmask(x)
    if np.ma.isMaskedArray(x):
        x = x.filled(0)
    numbers = real_array(name, x, finite=False)
    numbers[missing] = np.nan
    return numbers


def _read_one(name, sequence):
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
    x.setflags(write=False)
    return x


def check_channels(x: np.ndarray) -> None:
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


def check_states(tables: list, n_states: int) -> None:
    """Raise ValueError where rows of states have other names, or numbers in another order."""
    indices = [[*index] for index in map(index_of, tables) if index is not None]
    named = [index[-n_states:] for index in indices if index != [*range(len(index))]]
    for names in named:
        numbers = [*range(len(names))]
        wanted = numbers if {*names} == {*numbers} else named[0]
        if names != wanted:
            raise ValueError(f"rows are of states {names}, and not {wanted}: sort them alike")
