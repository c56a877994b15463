"""The original UCI files of the Dodgers Loop Sensor set, made into the canonical CSV."""

from pathlib import Path
from typing import Literal

import pandas as pd

from .dodgers import MISSING

MEMBERS = ["Dodgers.data", "Dodgers.events"]


def canonical(folder: Path, inclusive: Literal["both", "left"]) -> bytes:
    """The CSV of `timestamp, count, in_game` from the original files.

    `Dodgers.data` has lines `mm/dd/yyyy HH:MM,count` with -1 for missing; `Dodgers.events` has
    lines `mm/dd/yy,HH:MM:SS,HH:MM:SS,...`, begin and end of each home game, in Latin-1. in_game is
    1 on observed rows from begin to end, the end included unless `inclusive` is "left".
    """
    table = pd.read_csv(folder / MEMBERS[0], header=None, names=["timestamp", "count"])
    table["timestamp"] = pd.to_datetime(table["timestamp"], format="%m/%d/%Y %H:%M")
    games = pd.read_csv(folder / MEMBERS[1], header=None, dtype=str, encoding="latin-1")
    begins, ends = (
        pd.to_datetime(games[0] + " " + games[i], format="%m/%d/%y %H:%M:%S") for i in (1, 2)
    )
    in_game = pd.Series(False, index=table.index)
    for begin, end in zip(begins, ends, strict=True):
        in_game |= table["timestamp"].between(begin, end, inclusive)
    table["in_game"] = (in_game & (table["count"] != MISSING)).astype(int)
    text = table.to_csv(index=False, date_format="%Y-%m-%d %H:%M", lineterminator="\n")
    return text.encode("ascii")
