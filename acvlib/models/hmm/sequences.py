"""The frames of many sequences, end to end, with what an autoregression looks back at."""

from typing import NamedTuple

import numpy as np

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

    @property
    def n_sequences(self):
        return len(self.starts) - 1

    def take(self, numbers):
        """The frames of these sequences."""
        parts = [np.arange(self.starts[n], self.starts[n + 1]) for n in numbers]
        rows = np.concatenate(parts)
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
    checked = tuple(_read_one(n, sequence) for n, sequence in enumerate(_listed(given)))
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
    return checked


def one_or_more(x):
    """The sequences in x: one array (T,) or (T, R), or whatever `read_sequences` takes."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "O" and x.ndim == 1:
        x = list(x)
    if isinstance(x, tuple | list) and len(x) and all(np.ndim(entry) == 0 for entry in x):
        x = np.asarray(x)
    return [x] if getattr(x, "ndim", 0) in (1, 2) else x


def _listed(given):
    """A list of sequences from one, or from (X, lengths)."""
    holds_arrays = isinstance(given, np.ndarray) and given.dtype.kind == "O"
    if getattr(given, "ndim", None) in (1, 2) and not holds_arrays:
        shape = np.shape(given)
        width = shape[1] if len(shape) == 2 else 1
        raise ValueError(
            f"one array {shape} where a list of sequences is expected: pass [x] if it is one "
            f"sequence of {shape[0]} frames with {width} channels, or list(x) if its rows are "
            f"{shape[0]} sequences of {width} frames"
        )
    if not isinstance(given, tuple) or len(given) != 2:
        return list(given)
    x, lengths = given[0], np.asarray(given[1])
    counts = lengths.ndim == 1 and lengths.dtype.kind in "iu"
    if not counts or (np.ndim(x) == 1 and lengths.sum() != len(x)):
        return list(given)
    if np.ndim(x) != 2 or lengths.sum() != len(x) or lengths.min() < 1:
        raise ValueError(
            f"(X, lengths) takes a 2-d X and positive lengths that sum to its rows: X is "
            f"{np.shape(x)} and lengths, {lengths.tolist()}, sum to {lengths.sum()}; pass a list "
            "[x1, x2] if these are two sequences"
        )
    x = x if np.ma.isMaskedArray(x) else np.asarray(x)
    return np.split(x, np.cumsum(lengths)[:-1])


def _read_one(number, sequence):
    x = _numbers(number, sequence)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"sequence {number} must be (T, R), got {np.shape(sequence)}")
    missing = np.isnan(x).all(axis=1)
    bad = np.flatnonzero(~missing & ~np.isfinite(x).all(axis=1))
    if bad.size:
        raise ValueError(
            f"frame {bad[0]} of sequence {number}: a frame is finite, or wholly nan, or wholly "
            "masked, where missing"
        )
    large = np.flatnonzero((np.abs(x) > LARGEST).any(axis=1))
    if large.size:
        raise ValueError(
            f"frame {large[0]} of sequence {number} holds {np.abs(x[large[0]]).max():.3g}, beyond "
            f"{LARGEST:.0e}: rescale"
        )
    return own_copy(x)


def _numbers(number, sequence):
    """A sequence as floats, nan where masked; refuses what would change on the way."""
    mask = np.ma.getmaskarray(sequence) if np.ma.isMaskedArray(sequence) else None
    x = np.ma.getdata(sequence)
    if x.dtype.kind not in "biufO":
        raise ValueError(f"sequence {number} holds {x.dtype}, not real numbers")
    if x.dtype.kind in "iuO":
        exact = x if mask is None else np.where(mask, 0, x)
        _check_exact(number, exact)
    x = np.array(x, float)
    if mask is not None:
        x[mask] = np.nan
    return x


def _check_exact(number, x):
    """Refuses integers that floating point rounds."""
    for entry in x.ravel() if x.dtype == object else (x.min(initial=0), x.max(initial=0)):
        if isinstance(entry, int | np.integer) and abs(int(entry)) > 2**53:
            raise ValueError(
                f"sequence {number} holds the integer {entry}, beyond 2^53: floating point would "
                "round it; subtract an offset first, or pass floats"
            )


def check_channels(sequences, emission):
    """Raise ValueError where a channel has nothing to fit."""
    x = np.concatenate(sequences)
    seen = x[~np.isnan(x[:, 0])]
    if not len(seen):
        raise ValueError("every frame is missing: there is nothing to fit")
    spread = np.ptp(seen, axis=0)
    constant = np.flatnonzero(spread == 0)
    if constant.size:
        channel = constant[0]
        raise ValueError(
            f"channel {channel} is {seen[0, channel]:g} in every frame of every sequence: drop it"
        )
    if spread.min() < 1.0 / LARGEST:
        channel = spread.argmin()
        raise ValueError(f"channel {channel} varies by no more than {spread.min():.3g}: rescale it")
    distance = np.abs(seen).min(axis=0) / spread
    if distance.max() > FARTHEST and not hasattr(emission, "standardised"):
        channel = distance.argmax()
        raise ValueError(
            f"channel {channel} lies {distance.max():.3g} times its range from 0: subtract its mean"
        )


def check_sites(fold, observed):
    """Distinct numbers of observed sites."""
    sites = np.asarray(fold)
    inside = sites.dtype.kind in "iu" and ((sites >= 0) & (sites < len(observed))).all()
    if not inside or len(np.unique(sites)) < sites.size or not observed[sites].all():
        raise ValueError(
            f"fold {np.array2string(sites, threshold=9)}: must hold distinct numbers of observed "
            f"sites, 0 ... {len(observed) - 1}"
        )
    return sites
