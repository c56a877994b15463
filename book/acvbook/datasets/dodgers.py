"""Cars per five minutes near Dodger Stadium: 25 weeks of real counts, and their stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from . import registry

CANONICAL_FILE = "dodgers_counts.csv"
MISSING = -1

# The real set's shape and missingness, and rounded values of its scale: cars per five minutes.
_START, _STEP, _N_DAYS = np.datetime64("2005-04-10T00:00"), np.timedelta64(5, "m"), 175
_ROWS_OF_DAY = 288
_N_ROWS = _N_DAYS * _ROWS_OF_DAY
_N_MISSING, _N_MISSING_RUNS, _FIRST_MISSING_RUN = 2903, 55, 379
_DAY_RATE = np.array([16.7, 19.5, 22.8, 22.7, 22.3, 22.6, 18.5])  # Sunday first
_HOUR_RATE = np.array(  # at half past each hour, on weekdays and at weekends
    [[5, 4, 3, 2, 3, 9, 21, 35, 36, 33, 28, 26, 27, 27, 33, 37, 34, 32, 32, 28, 20, 20, 18, 11]]
    + [[10, 7, 7, 4, 3, 4, 8, 12, 16, 20, 22, 24, 24, 26, 28, 29, 32, 27, 26, 24, 20, 20, 19, 14]]
)
_N_GAMES, _EVENING_SHARE, _GAME_BEGINS, _GAME_ROWS = 81, 0.75, (158, 230), (26, 45)
_LEAVING = -6, 15  # the rows about the end of a game in which its crowd drives away
_EXCESS_SHAPE, _EXCESS_RATE = 4.0, 4.0 / 14.0  # NegBin(a, b/(1 + b)): mean a/b = 14 cars


@dataclass(frozen=True, eq=False, repr=False)
class Dodgers(registry.Rows):
    """A series of T five-minute car counts.

    counts: (T,) int64, cars; -1 where missing. timestamp: (T,) datetime64[m], local time. in_game:
    (T,) bool, a home game is on (its extra traffic begins near its *end*). sha256: of the canonical
    file, also after `head`; of the counts' bytes if simulated.
    """

    of_rows = ("counts", "timestamp", "in_game")
    noun = "five-minute counts"
    counts: np.ndarray
    timestamp: np.ndarray
    in_game: np.ndarray
    provenance: Literal["real", "simulated"]
    sha256: str
    name: ClassVar[str] = "dodgers"

    @property
    def observed(self) -> np.ndarray:
        """(T,) bool: the count is there."""
        return self.counts != MISSING

    @property
    def day(self) -> np.ndarray:
        """(T,) int64: day of the week, 0 = Sunday."""
        return day_of_week(self.timestamp)

    def head(self, n: int) -> Dodgers:
        """The first n rows, of the same provenance and sha256; ValueError unless 1 <= n <= T."""
        if not 1 <= n <= len(self):
            raise ValueError(f"head({n}) of a series of {len(self)} rows")
        return self.take(slice(n))


def day_of_week(timestamp: np.ndarray) -> np.ndarray:
    """Day of the week of each datetime64, 0 = Sunday."""
    return (timestamp.astype("datetime64[D]").astype(np.int64) + 4) % 7  # 1970-01-01 was a Thursday


def load_dodgers() -> Dodgers:
    """The real series: T = 50,400 rows from Sunday 2005-04-10 00:00, 2,903 of them missing.

    Raises DataNotFound or DataCorrupt. Source: UCI Machine Learning Repository, Dodgers Loop
    Sensor; Ihler, Hutchins and Smyth (2006).
    """
    import pandas as pd

    path = registry.find("dodgers", CANONICAL_FILE)
    table = pd.read_csv(path, parse_dates=["timestamp"], date_format="%Y-%m-%d %H:%M")
    counts, timestamp = table["count"].to_numpy(), table["timestamp"].to_numpy("datetime64[m]")
    return Dodgers(
        counts, timestamp, table["in_game"].to_numpy(bool), "real", registry.file_sha256(path)
    )


def simulate_dodgers(rng: np.random.Generator) -> Dodgers:
    """A stand-in of the real set's shape, missingness and scale: days, nights and games.

    x_t = Poisson(rate of day and hour) + z_t NegBin(a, b/(1 + b)), where z_t is 1 while the crowd
    of a game drives away. Source: after Ihler, Hutchins and Smyth (2006).
    """
    timestamp = _START + _STEP * np.arange(_N_ROWS)
    in_game, leaving = _simulate_games(rng)
    excess = rng.negative_binomial(_EXCESS_SHAPE, _EXCESS_RATE / (1 + _EXCESS_RATE), _N_ROWS)
    counts = rng.poisson(_rates(day_of_week(timestamp))) + leaving * excess
    counts[_simulate_missing(rng)] = MISSING
    return Dodgers(
        counts, timestamp, in_game & (counts != MISSING), "simulated", registry.checksum(counts)
    )


def _rates(day):
    """(T,) cars expected without a game: a curve through the hours' rates, at the day's level."""
    hour = (np.arange(_ROWS_OF_DAY) + 0.5) / 12.0
    curves = [np.interp(hour, 0.5 + np.arange(24), rate, period=24.0) for rate in _HOUR_RATE]
    shapes = np.array([curve / curve.mean() for curve in curves])
    weekend = np.isin(day[::_ROWS_OF_DAY], (0, 6)).astype(int)
    return _DAY_RATE[day] * shapes[weekend].ravel()


def _simulate_games(rng):
    """Two (T,) bools: a game is on, one at most on each day; its crowd drives away."""
    in_game, leaving = np.zeros((2, _N_ROWS), bool)
    for day in rng.choice(_N_DAYS, _N_GAMES, replace=False):
        begin = day * _ROWS_OF_DAY + _GAME_BEGINS[int(rng.random() < _EVENING_SHARE)]
        end = begin + rng.integers(*_GAME_ROWS)
        in_game[begin:end] = True
        leaving[end + _LEAVING[0] : end + _LEAVING[1]] = True
    return in_game, leaving


def _simulate_missing(rng):
    """(T,) bool: one long run at the start, then runs of very unequal length anywhere."""
    later = _split(rng, _N_MISSING - _FIRST_MISSING_RUN, _N_MISSING_RUNS - 1, evenness=0.3)
    runs = np.append(_FIRST_MISSING_RUN, later)
    gaps = _split(rng, _N_ROWS - _N_MISSING, _N_MISSING_RUNS, evenness=1.0)
    return np.repeat(np.tile([True, False], _N_MISSING_RUNS), np.column_stack([runs, gaps]).ravel())


def _split(rng, total, n_parts, evenness):
    """Positive integers that sum to `total`."""
    return 1 + rng.multinomial(total - n_parts, rng.dirichlet(np.full(n_parts, evenness)))
