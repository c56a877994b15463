"""Tables for readers: headings in words, numbers with as many digits as tell them apart."""

import math
import re
import tomllib
from pathlib import Path

from acvlib.plots import RUNGS

_NAMES = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
_WORDS = {name: label for name, (label, *_) in RUNGS.items()} | _NAMES
_TABLE = re.compile(r'<table[^>]*class="dataframe".*?</table>', re.DOTALL)
_HEADING = re.compile(r"(<th[^>]*>)([^<]+)(?=</th>)")
_ROW = re.compile(r"<tr[^>]*>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"(?<=<td>)[^<]*(?=</td>)")
_DECIMAL = re.compile(r"-?\d*\.\d+(?:e[+-]\d+)?")
_SHORT = re.compile(r"\b(aic|bfgs|bic|elpd|em|icl|ij|ns|std|theta)\b")
_IN_FULL = {"ns": "Newton step", "std": "SD", "theta": "θ"}  # the others are written in capitals
DIGITS = 3
WIDE = 7  # columns of numbers from which on a table is set smaller


def readable(html: str) -> str:
    """The tables that pandas wrote into `html`, for readers; all else as it is."""
    return _TABLE.sub(lambda table: _numbers(_HEADING.sub(_heading, table[0])), html)


def _heading(match):
    in_full = _SHORT.sub(lambda word: _IN_FULL.get(word[0], word[0].upper()), words(match[2]))
    return match[1] + in_full


def words(name: str) -> str:
    """A column's or a row's name in words: `theta_error` is `parameter error (SE)`."""
    if name in _WORDS:
        return _WORDS[name]
    parts = [
        _WORDS.get(part, part.replace("_", " ")) for part in re.split(r"(?<=\D)\.(?=\D)", name)
    ]
    return ", ".join(parts)


def _numbers(table):
    rows = [_CELL.findall(row) for row in _ROW.findall(table)]
    width = max(map(len, rows), default=0)
    columns = [[row[place] for row in rows if len(row) == width] for place in range(width)]
    decimals = [_decimals_apart(column) for column in columns]

    def of_row(row):
        places = iter(range(width))
        return _CELL.sub(lambda cell: number(cell[0], decimals[next(places)]), row[0])

    table = _ROW.sub(of_row, table)
    return table.replace('class="dataframe"', 'class="dataframe wide"') if width > WIDE else table


def _decimals_apart(column):
    """Decimals at which three digits of the range of a column's numbers can be seen."""
    values = [float(cell) for cell in column if _DECIMAL.fullmatch(cell)]
    span = max(values, default=0.0) - min(values, default=0.0)
    return _decimals(span)


def _decimals(value):
    """Decimals of the third significant digit; 0 for 0."""
    return max(0, DIGITS - 1 - math.floor(math.log10(abs(value)))) if value else 0


def number(cell: str, decimals: int = 0) -> str:
    """A cell to three significant digits, to more where its column needs `decimals`; other text as
    it is, and never more digits than it has.
    """
    if not _DECIMAL.fullmatch(cell):
        return cell
    value = float(cell) + 0.0  # -0.0 is 0
    if "e" in cell:
        return f"{value:.3g}"
    wanted = max(decimals, _decimals(value))
    return f"{value:,.{min(wanted, len(cell.partition('.')[2]))}f}"
