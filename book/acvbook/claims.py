"""The claims of the book: what must be shown, written beforehand in `book/claims.toml`.

A key or a value that has no meaning is refused: a misspelt scale would switch a verdict off.
"""

import math
import operator
import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = ROOT / "book" / "claims.toml"
SCALES = ("quick", "paper")
PROVENANCES = ("real", "simulated")

_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_RULE = re.compile(r"(<=|>=|<|>|==) (\S+)(?: ± (\S+))?")


class LedgerError(ValueError):
    """A record or a claims file that cannot be right; the message names the id and the file."""


def holds(rule: str, value: object) -> bool:
    """Whether `value` meets `rule`: `is true`, `<= x`, `>= x`, `< x`, `> x`, `== x`, `== x ±
    tol`.
    """
    parsed = _parsed(rule)
    if parsed is None:
        return value is True
    sign, bound, tolerance = parsed
    if sign == "==":
        return abs(value - bound) <= tolerance
    return bool(_COMPARE[sign](value, bound))


def _parsed(rule):
    """(sign, bound, tolerance) of a rule; None of `is true`."""
    if rule == "is true":
        return None
    match = _RULE.fullmatch(rule) if isinstance(rule, str) else None
    if match is None or (match[3] and match[1] != "=="):
        raise LedgerError(f"no such rule: {rule!r}")
    try:
        bound, tolerance = float(match[2]), float(match[3] or 0)
    except ValueError as error:
        raise LedgerError(f"no such rule: {rule!r}: {error}") from None
    if not math.isfinite(bound) or not 0 <= tolerance < math.inf:
        raise LedgerError(f"no such rule: {rule!r} can never fail, or never hold")
    return match[1], bound, tolerance


@dataclass(frozen=True)
class Claim:
    """One checkable statement. `must` maps a scale to its rule; `scales` are those at which it is
    measured; `stand_in` says why a stand-in is published where the real data cannot be had; `parts`
    are ids, each a claim of its own. Raises LedgerError, with the id, for what has no meaning.
    """

    id: str
    source: str
    shows: str
    paper: object = None
    must: dict = field(default_factory=dict)
    data: str = "real"
    notebook: str | None = None
    explanation: str | None = None
    scales: tuple = SCALES
    stand_in: str | None = None
    parts: tuple = ()

    def __post_init__(self):
        for name in ("source", "shows", "notebook", "explanation", "stand_in"):
            value = getattr(self, name)
            may_be_absent = name not in ("source", "shows")
            if not (isinstance(value, str) or (value is None and may_be_absent)):
                raise LedgerError(f"{self.id}: {name} = {value!r} is not a text")
        if self.data not in PROVENANCES:
            raise LedgerError(f"{self.id}: data = {self.data!r} is neither real nor simulated")
        for name, kind in (("must", dict), ("scales", list | tuple)):
            value = getattr(self, name)
            if not isinstance(value, kind) or any(scale not in SCALES for scale in value):
                raise LedgerError(
                    f"{self.id}: {name} = {value!r}: the scales are {' and '.join(SCALES)}"
                )
        for rule in self.must.values():
            try:
                _parsed(rule)
            except LedgerError as error:
                raise LedgerError(f"{self.id}: {error}") from None

    def is_stand_in(self, data: str) -> bool:
        """Whether `data` ("real" or "simulated") only takes the place of what the claim is
        about.
        """
        return self.data == "real" and data == "simulated"

    def judge(self, value: object, data: str, scale: str) -> bool | None:
        """`True` or `False` by this scale's rule;
        `None` without a rule or on a stand-in for real data.
        """
        if self.is_stand_in(data) or scale not in self.must:
            return None
        return holds(self.must[scale], value)


_KEYS = {field.name for field in fields(Claim)} - {"id"}


def load_claims(path: Path | str = CLAIMS) -> dict[str, Claim]:
    """All claims of a claims file by id, each followed by its parts,
    which inherit what they do not set.

    Raises LedgerError, with the file and the id, for a damaged file, and for keys and values that
    are not known.
    """
    try:
        return _claims(tomllib.loads(Path(path).read_text("utf-8")))
    except ValueError as error:
        raise LedgerError(f"{path}: {error}") from None


def _claims(tables):
    _known(tables, {"papers", "claims"}, "the file")
    papers, claims = tables.get("papers"), {}
    _known(tables.get("claims"), None, "claims")
    for id, table in tables["claims"].items():
        if papers is not None and id.split(".")[0] not in papers:
            raise LedgerError(f"{id}: its first word is no paper of [papers]: {', '.join(papers)}")
        for claim in _with_parts(id, table):
            if claim.id in claims:
                raise LedgerError(f"{claim.id} stands there twice")
            claims[claim.id] = claim
    return claims


def _with_parts(id, table):
    _known(table, _KEYS, id)
    own = {key: value for key, value in table.items() if key != "parts"}
    parts = table.get("parts", {})
    _known(parts, None, f"{id}, parts")
    yield _claim(id, own | {"parts": tuple(f"{id}.{name}" for name in parts)})
    for name, part in parts.items():
        _known(part, _KEYS - {"parts"}, f"{id}.{name}")
        yield _claim(f"{id}.{name}", own | part)


def _claim(id, table):
    missing = {"source", "shows"}.difference(table)
    if missing:
        raise LedgerError(f"{id}: no {' and no '.join(sorted(missing))}")
    return Claim(id=id, **table)


def _known(table, keys, where):
    if not isinstance(table, dict):
        raise LedgerError(f"{where}: {table!r} is not a table")
    unknown = sorted(set(table) - keys) if keys is not None else []
    if unknown:
        raise LedgerError(
            f"{where}: no key {', '.join(unknown)}; there are {', '.join(sorted(keys))}"
        )
