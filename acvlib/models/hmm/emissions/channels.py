"""Channels of several kinds: an emission for each group of them, independent given the state.

log p(x_t | z_t = k) = sum_g log p_g(channels of group g at t | k), without the groups that frame t
misses. A row has those of the groups, one after another.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from ....declared import declared
from ..frames import Frames
from .base import Emission, check_simple, numpy_of


class Group(NamedTuple):
    """name; emission; places: the numbers of its channels; piece: of a row, its parameters."""

    name: Any
    emission: Emission
    places: list[int]
    piece: slice

    def of(self, frames: Frames) -> Frames:
        """The group's own channels; frames that miss all of them are not observed."""
        seen = frames.seen[:, self.places]
        observed: Any = seen.any(axis=1)
        x, design = frames.x[:, self.places], frames.design * observed[:, None]
        return frames._replace(x=x, seen=seen, design=design, observed=observed)


@declared
@dataclass(frozen=True, repr=False)
class Channels(Emission):
    """An emission for each group of channels, by which named parameters are a dict of `unpack`.

    groups: {column: emission}, or pairs (column, emission), of which a column may be a tuple of
    several. Columns are names where sequences have such, as in pandas, or numbers. Each channel is
    in exactly one group; places: the numbers of each group's channels.

    Raises TypeError for emissions with order, inputs or parameters that states share, ValueError
    for channels in no group or in several.
    """

    groups: Any
    places: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)
    misses_channels = True

    def __post_init__(self):
        groups = self.groups.items() if isinstance(self.groups, dict) else self.groups
        groups = tuple(groups) if np.iterable(groups) else ()
        if not groups or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in groups):
            example = 'such as {"speed": Gaussian(), "steps": Poisson()}'
            raise TypeError(f"groups {self.groups!r:.60} must be emissions by columns, {example}")
        groups = tuple((tuple(k) if isinstance(k, list) else k, part) for k, part in groups)
        for name, part in groups:
            check_simple(f"group {name!r}", part)
        self.__dict__["groups"] = groups

    def of_columns(self, columns: list | None, n_channels: int):
        if columns is None and self.places is not None:  # a model's own, whose names are known
            if sum(map(len, self.places)) != n_channels:
                raise ValueError(f"{n_channels} channels: the groups have places {self.places}")
            return self
        labels = columns or [*range(n_channels)]
        groups = [
            name if isinstance(name, tuple) and name not in labels else (name,)
            for name, _ in self.groups
        ]
        named = sum(groups, ())
        if all(isinstance(name, Integral) for name in named):
            has_numbers = any(isinstance(name, Integral) for name in labels)
            labels = labels if has_numbers else [*range(n_channels)]
        unknown = [name for name in named if name not in labels]
        if unknown or () in groups:
            remedy = "name these" if columns else "number them, or give frames with these columns"
            raise ValueError(f"groups of {unknown}, but channels are {labels}: {remedy}")
        wrong = [name for name in labels if named.count(name) != 1 or labels.count(name) != 1]
        if wrong:
            raise ValueError(f"channels {wrong} are in no group, or twice: each is to be in one")
        return replace(self, places=tuple(tuple(map(labels.index, group)) for group in groups))

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        groups = []
        for (name, part), places in zip(self.groups, self.places, strict=True):
            with _told(name):
                groups.append((name, part.settled(x[:, places], inputs, weights)))
        return replace(self, groups=groups)

    @cached_property
    def _groups(self) -> list[Group]:
        groups = []
        start = 0
        for (name, part), places in zip(self.groups, self.places, strict=True):
            stop = start + part.state_size(len(places))
            groups.append(Group(name, part, [*places], slice(start, stop)))
            start = stop
        return groups

    @property
    def parts(self):
        return [(group.places, group.emission) for group in self._groups]

    @property
    def has_zeros(self):
        return any(part.has_zeros for _, part in self.groups)

    def without_defaults(self):
        changed = {}
        for place, (name, part) in enumerate(self.groups):
            for setting, (law, flat, other) in part.without_defaults().items():
                groups = [*self.groups]
                groups[place] = name, other
                changed[f"{setting} of {name!r}"] = law, flat, replace(self, groups=groups)
        return changed

    def prepared(self, x: np.ndarray):
        read = np.empty_like(x)
        for name, part, places, _ in self._groups:
            with _told(name):
                read[:, places] = part.prepared(x[:, places])
        return read

    def state_size(self, n_channels: int):
        return self._groups[-1].piece.stop

    def kept(self, n_states: int, n_channels: int):
        return np.hstack([g.emission.kept(n_states, len(g.places)) for g in self._groups])

    def unpack(self, rows: np.ndarray, n_channels: int):
        return {
            name: part.unpack(rows[:, piece], len(places))
            for name, part, places, piece in self._groups
        }

    def pack(self, named: Any):
        return np.hstack([group.emission.pack(named[group.name]) for group in self._groups])

    def minus_log_prior(self, rows: Any):
        parts = [part.minus_log_prior(rows[..., piece]) for _, part, _, piece in self._groups]
        values, slopes = zip(*parts, strict=True)
        return sum(values), numpy_of(rows).concatenate(slopes, axis=-1)

    def log_densities(self, rows: Any, frames: Frames):
        xp = numpy_of(rows)
        total = 0.0
        for group in self._groups:
            theirs = group.of(frames)
            density = group.emission.log_densities(rows[:, group.piece], theirs)
            total = total + xp.where(theirs.observed[:, None], density, 0.0)
        return total

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        factors = []
        for group in self._groups:
            theirs = group.of(frames)
            pairs = group.emission.score_factors(rows[:, group.piece], k, theirs)
            factors += [(signal * theirs.observed[:, None], inputs) for signal, inputs in pairs]
        return factors

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray):
        """Of each group."""
        expected = []
        for group in self._groups:
            theirs = group.of(frames)
            counted = mass * theirs.observed[:, None]
            expected.append(group.emission.expected(rows[:, group.piece], theirs, counted))
        return expected

    def _each(self, name, rows, expected):
        """What a method of each group's emission says of its rows and what is expected."""
        pairs = zip(self._groups, expected, strict=True)
        return [getattr(g.emission, name)(rows[:, g.piece], of_group) for g, of_group in pairs]

    def slopes(self, rows: np.ndarray, expected: Any):
        return np.hstack(self._each("slopes", rows, expected))

    def information(self, rows: np.ndarray, expected: Any):
        return _on_diagonal(self._each("information", rows, expected))

    def prior_information(self, rows: np.ndarray):
        parts = [part.prior_information(rows[:, piece]) for _, part, _, piece in self._groups]
        return _on_diagonal(parts)

    def maximise(self, rows: np.ndarray, expected: Any):
        return np.hstack(self._each("maximise", rows, expected))

    def extreme(self, rows: np.ndarray, frames: Frames):
        parts = [g.emission.extreme(rows[..., g.piece], g.of(frames)) for g in self._groups]
        return np.any(parts, axis=0)

    def check_optimum(self, rows: np.ndarray, expected: Any):
        for group, of_group in zip(self._groups, expected, strict=True):
            with _told(group.name):
                group.emission.check_optimum(rows[:, group.piece], of_group)

    def features(self, frames: Frames):
        """Those of each group, which vary by 1 in all: no group outweighs another."""
        columns = []
        for group in self._groups:
            theirs = group.of(frames)
            features = group.emission.features(theirs)
            seen = features[theirs.observed]
            centre = seen.mean(axis=0)
            spread = np.sqrt(((seen - centre) ** 2).sum(axis=1).mean())
            centred = (features - centre) * theirs.observed[:, None]
            columns.append(centred / spread if spread > 0.0 else centred)
        return np.hstack(columns)

    def start(self, frames: Frames, labels: np.ndarray, n_states: int):
        parts = [g.emission.start(g.of(frames), labels, n_states) for g in self._groups]
        return np.hstack(parts)


def _on_diagonal(pairs):
    """Information (K, 0, e) and (K, e, e) of all groups, from that of each."""
    states = zip(*(matrices for _, matrices in pairs), strict=True)
    matrices = np.array([block_diag(*blocks) for blocks in states])
    return matrices[:, :0], matrices


@contextmanager
def _told(name):
    """Say which group an error is of."""
    try:
        yield
    except ValueError as error:
        raise type(error)(f"group {name!r}: {error}") from None
