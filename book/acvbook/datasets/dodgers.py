"""Cars per five minutes near Dodger Stadium: 25 weeks of real counts,
and a simulator of the same shape.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from . import registry

CANONICAL_FILE = "dodgers_counts.csv"
MISSING = -1

# The real set's shape and missingness, and rounded values of its scale.
_START, _STEP, _N_ROWS = np.datetime64("2005-04-10T00:00"), np.timedelta64(5, "m"), 175 * 288
_N_MISSING, _N_MISSING_RUNS, _FIRST_MISSING_RUN = 2903, 55, 379
_DAY_RATE = np.array(
    [16.0, 18.5, 22.0, 22.0, 21.5, 22.0, 18.0]
)  # cars per five minutes, Sunday first
_EXCESS_SHAPE, _EXCESS_RATE = 4.0, 4.0 / 17.0  # NegBin(a, b/(1 + b)): mean a/b = 17 cars
_QUIET_ROWS, _EVENT_ROWS = 600, 35  # mean stay in each state: about 79 events


@dataclass(frozen=True, eq=False, repr=False)
class Dodgers:
    """A series of T five-minute car counts.

    counts: (T,) int64, cars; -1 where missing. timestamp: (T,) datetime64[m], local time. in_game:
    (T,) bool, a home game is on (its extra traffic begins near its *end*). sha256: of the canonical
    file, also after `head`; of the counts' bytes if simulated. Raises ValueError on unequal lengths
    or counts below -1.
    """

    counts: np.ndarray
    timestamp: np.ndarray
    in_game: np.ndarray
    provenance: Literal["real", "simulated"]
    sha256: str
    name: ClassVar[str] = "dodgers"

    def __post_init__(self):
        lengths = len(self.counts), len(self.timestamp), len(self.in_game)
        if len(set(lengths)) > 1:
            raise ValueError(f"counts, timestamp and in_game have lengths {lengths}")
        if self.counts.min(initial=MISSING) < MISSING:
            raise ValueError(f"a count is {self.counts.min()}; the least is {MISSING}, for missing")

    @property
    def observed(self) -> np.ndarray:
        """(T,) bool: the count is there."""
        return self.counts != MISSING

    @property
    def day(self) -> np.ndarray:
        """(T,) int64: day of the week, 0 = Sunday."""
        return day_of_week(self.timestamp)

    def head(self, n: int) -> Dodgers:
        """The first n rows, with the provenance and sha256 of the whole;
        ValueError unless 1 <= n <= T.
        """
        if not 1 <= n <= len(self):
            raise ValueError(f"head({n}) of a series of {len(self)} rows")
        return replace(
            self, counts=self.counts[:n], timestamp=self.timestamp[:n], in_game=self.in_game[:n]
        )

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        missing = np.count_nonzero(~self.observed)
        return f"Dodgers({len(self):,} five-minute counts, {missing:,} missing, {self.provenance})"


def day_of_week(timestamp: np.ndarray) -> np.ndarray:
    """Day of the week of each datetime64, 0 = Sunday."""
    return (timestamp.astype("datetime64[D]").astype(np.int64) + 4) % 7  # 1970-01-01 was a Thursday


def counts_sha256(counts: np.ndarray) -> str:
    """The sha256 of counts as little-endian 64-bit integers."""
    return hashlib.sha256(np.asarray(counts, "<i8").tobytes()).hexdigest()


def load_dodgers(download: bool = False) -> Dodgers:
    """The real series: T = 50,400 rows from Sunday 2005-04-10 00:00, 2,903 of them missing.

    With `download`, a file that is not there is fetched from UCI first. Raises DataNotFound or
    DataCorrupt. Source: UCI Machine Learning Repository, Dodgers Loop Sensor; Ihler, Hutchins and
    Smyth (2006).
    """
    try:
        path = registry.find("dodgers", CANONICAL_FILE)
    except registry.DataNotFound:
        if not download:
            raise
        path = _fetched()
    return _read_canonical(path)


def simulate_dodgers(rng: np.random.Generator) -> Dodgers:
    """A stand-in of the real set's shape, missingness and scale,
    drawn from the time-varying Poisson model.

    x_t = Poisson(rate of the day) + z_t NegBin(a, b/(1 + b)), z a two-state Markov chain that
    stands for the games (`in_game`). No daily cycle: the real series, near 0 at night, has one that
    the model ignores too. Source: the model of Ihler, Hutchins and Smyth (2006), as in Ghosh et al.
    (2020), Appendix L.1.
    """
    timestamp = _START + _STEP * np.arange(_N_ROWS)
    event = _simulate_events(rng)
    excess = rng.negative_binomial(_EXCESS_SHAPE, _EXCESS_RATE / (1 + _EXCESS_RATE), _N_ROWS)
    counts = rng.poisson(_DAY_RATE[day_of_week(timestamp)]) + event * excess
    counts[_simulate_missing(rng)] = MISSING
    return Dodgers(
        counts, timestamp, event & (counts != MISSING), "simulated", counts_sha256(counts)
    )


def _simulate_events(rng):
    """(T,) bool: a Markov chain from quiet, drawn as alternating stays of geometric length."""
    stays = rng.geometric([1 / _QUIET_ROWS, 1 / _EVENT_ROWS], size=(_N_ROWS, 2)).ravel()
    return np.repeat(np.arange(stays.size) % 2 == 1, stays)[:_N_ROWS]


def _simulate_missing(rng):
    """(T,) bool: one long run at the start, then runs of very unequal length anywhere."""
    later = _split(rng, _N_MISSING - _FIRST_MISSING_RUN, _N_MISSING_RUNS - 1, evenness=0.3)
    runs = np.append(_FIRST_MISSING_RUN, later)
    gaps = _split(rng, _N_ROWS - _N_MISSING, _N_MISSING_RUNS, evenness=1.0)
    return np.repeat(np.tile([True, False], _N_MISSING_RUNS), np.column_stack([runs, gaps]).ravel())


def _split(rng, total, n_parts, evenness):
    """Positive integers that sum to `total`."""
    return 1 + rng.multinomial(total - n_parts, rng.dirichlet(np.full(n_parts, evenness)))


def _fetched() -> Path:
    from .fetch import fetch  # pooch and pandas only when something is fetched

    fetch("dodgers")
    return registry.find("dodgers", CANONICAL_FILE)


def _read_canonical(path: Path) -> Dodgers:
    import pandas as pd

    table = pd.read_csv(path, parse_dates=["timestamp"], date_format="%Y-%m-%d %H:%M")
    counts, timestamp = table["count"].to_numpy(), table["timestamp"].to_numpy("datetime64[m]")
    return Dodgers(
        counts, timestamp, table["in_game"].to_numpy(bool), "real", registry.file_sha256(path)
    )
