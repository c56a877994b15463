"""The claims of the book: what must be shown, written beforehand in `book/claims/`, by chapter.

A claim is a table `[claims."paper.name"]` with these keys:

- `source`: where it stands; `shows`: what must be shown.
- `paper`: what is reported there: a number, or a sentence in our words in which the paper's own
  stand between “ and ”; `unit`: the unit of both.
- `must`: the rule at a scale, `must.paper = ">= 0.99"`; the forms are those of `holds`. Without
  one the number is reported, not judged.
- `nothing`: why *doing nothing* (no adjustment at all) has no such number. Without this key a
  judged record must carry its `baseline`: the same number, measured for doing nothing.
- `fixed`: why chance does not enter. Without this key a judged record is the median of at least
  `draws` independent draws (20 unless told).
- `ours`: true for a part that the paper states neither in words nor by a number; it does not
  inherit `paper`. It never decides whether a claim of a paper holds. Where it stands beside a part
  of the paper's, its id being that part's with one word more at the end or with another word
  (`iid.2.share` beside `iid.2`, `june.theta` beside `june.loss`), it may lend that part its power.
- `changed`: when and why the rule was changed after its number was seen.
- `data`: "real" (the default: stand-ins then get no verdict), or "simulated": it needs no data.
- `other`: why the real data are not those that the paper measured: their word is "real, other".
- `notebook`: the chapter that records it, and `figure`: the `:name:` of its figure there.
- `explanation`: why it does not hold; required as soon as it does not.
- `scales`: where it is measured, if not at both.
- `stand_in`: why a stand-in may be published: the real data cannot be had.
- `parts`: tables by sub-id, each a claim of its own; they inherit what they do not set.

A key or a value that has no meaning is refused: a misspelt scale would switch a verdict off. So is
a rule under a paper's name that the paper does not state and that is not `ours`, and a claim of a
paper all of whose rules are `ours`: it belongs to `beyond`.
"""

import operator
import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = ROOT / "book" / "claims"
SCALES = ("quick", "paper")
PROVENANCES = ("real", "real, partial", "real, other", "rebuilt", "simulated")
NEEDS = ("real", "simulated")
TEXTS = ("unit", "nothing", "fixed", "changed", "notebook", "figure", "explanation", "stand_in")
TEXTS += ("other",)

_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_SIZE = r"\d*\.?\d+(?:e-?\d+)?"
_RULE = re.compile(
    rf"(?P<sign><=|>=|<|>) (?P<bound>-?{_SIZE})"
    rf"|== (?P<middle>-?{_SIZE})(?: ± (?P<tolerance>{_SIZE}))?"
)


class LedgerError(ValueError):
    """A record or a claims file that cannot be right; the message names the id and the file."""


def holds(rule: str, value: object) -> bool:
    """Whether `value` meets `rule`: `is true`, `<= x`, `>= x`, `< x`, `> x`, `== x ± tol`.

    Raises LedgerError for any other rule.
    """
    if rule == "is true":
        return value is True
    match = _RULE.fullmatch(rule) if isinstance(rule, str) else None
    if match is None:
        raise LedgerError(f"no such rule: {rule!r}")
    if match["bound"]:
        return bool(_COMPARE[match["sign"]](value, float(match["bound"])))
    return abs(value - float(match["middle"])) <= float(match["tolerance"] or 0)


@dataclass(frozen=True)
class Claim:
    """One checkable statement; its fields are the keys that the module explains, `parts` the ids
    of its parts. Raises LedgerError, with the id, for what has no meaning.
    """

    id: str
    source: str
    shows: str
    paper: object = None
    unit: str | None = None
    must: dict = field(default_factory=dict)
    nothing: str | None = None
    fixed: str | None = None
    draws: int = 20
    ours: bool = False
    changed: str | None = None
    data: str = "real"
    other: str | None = None
    notebook: str | None = None
    figure: str | None = None
    explanation: str | None = None
    scales: tuple = SCALES
    stand_in: str | None = None
    parts: tuple = ()

    def __post_init__(self):
        texts = {name: isinstance(getattr(self, name), str | None) for name in TEXTS}
        meant = texts | {
            "source": isinstance(self.source, str),
            "shows": isinstance(self.shows, str),
            "paper": self.paper not in ("", "–", "none"),
            "data": self.data in NEEDS,
            "ours": type(self.ours) is bool,
            "draws": type(self.draws) is int and self.draws >= 2,
            "must": isinstance(self.must, dict) and all(s in SCALES for s in self.must),
            "scales": isinstance(self.scales, list | tuple)
            and all(s in SCALES for s in self.scales),
        }
        for name, has_meaning in meant.items():
            if not has_meaning:
                raise LedgerError(f"{self.id}: {name} = {getattr(self, name)!r} has no meaning")
        for rule in self.must.values():
            try:
                holds(rule, 0.0)
            except LedgerError as error:
                raise LedgerError(f"{self.id}: {error}") from None
        if self.must and self.paper is None and not self.is_ours:
            raise LedgerError(f"{self.id}: the paper states no such rule: ours = true")

    @property
    def is_ours(self) -> bool:
        """Whether no paper states it: a part marked so, and all that is new here."""
        return self.ours or self.id.startswith("beyond.")

    def word(self, data: str) -> str:
        """The word for `data`, a provenance: real data may be other than the paper's."""
        data = "real" if data == "real, other" else data
        return "real, other" if self.other and data == "real" else data

    def is_stand_in(self, data: str) -> bool:
        """Whether `data`, a provenance, only takes the place of what the claim is about."""
        return self.data == "real" and data in ("rebuilt", "simulated")

    def judge(self, value: object, data: str, scale: str) -> bool | None:
        """`True` or `False` by this scale's rule; `None` without one or on stand-ins."""
        return None if self.is_stand_in(data) else self.holds(value, scale)

    def holds(self, value: object, scale: str) -> bool | None:
        """Whether `value` meets this scale's rule, on whatever data; `None` without a rule."""
        return holds(self.must[scale], value) if scale in self.must else None


_KEYS = {field.name for field in fields(Claim)} - {"id"}


def load_claims(folder: Path | str = CLAIMS) -> dict[str, Claim]:
    """All claims of a folder by id, each followed by its parts, in the order of the papers.

    Raises LedgerError, with the file and the id, for a damaged file, and for keys and values that
    are not known.
    """
    papers = list(load_papers(folder))
    claims: dict[str, Claim] = {}
    for path in sorted(Path(folder).glob("*.toml")):
        try:
            for claim in _claims(tomllib.loads(path.read_text("utf-8")), papers):
                if claim.id in claims:
                    raise LedgerError(f"{claim.id} stands there twice")
                claims[claim.id] = claim
        except ValueError as error:
            raise LedgerError(f"{path}: {error}") from None
    return {id: claims[id] for id in sorted(claims, key=lambda id: papers.index(_paper(id)))}


def load_papers(folder: Path | str = CLAIMS) -> dict[str, str]:
    """The title of each paper by the first word of its claims' ids, from `papers.toml`."""
    path = Path(folder, "papers.toml")
    try:
        return tomllib.loads(path.read_text("utf-8"))["papers"]
    except (OSError, ValueError, KeyError) as error:
        raise LedgerError(f"{path}: no table of [papers] ({error})") from None


def _paper(id):
    return id.split(".")[0]


def _claims(tables, papers):
    _known(tables, {"papers", "claims"}, "the file")
    _known(tables.setdefault("claims", {}), None, "claims")
    for id, table in tables["claims"].items():
        if _paper(id) not in papers:
            raise LedgerError(f"{id}: its first word is no paper of [papers]: {', '.join(papers)}")
        yield from _with_parts(id, table)


def _with_parts(id, table):
    _known(table, _KEYS, id)
    own = {key: value for key, value in table.items() if key != "parts"}
    parts = table.get("parts", {})
    _known(parts, None, f"{id}, parts")
    if own.get("ours") is True:
        raise LedgerError(f"{id}: ours is said of a part")
    yield _claim(id, own | {"parts": tuple(f"{id}.{name}" for name in parts)})
    ruled = []
    for name, part in parts.items():
        _known(part, _KEYS - {"parts"}, f"{id}.{name}")
        inherited = own | {"paper": None} if part.get("ours") else own
        claim = _claim(f"{id}.{name}", inherited | part)
        ruled += [claim] if claim.must else []
        yield claim
    if ruled and all(claim.ours for claim in ruled):
        raise LedgerError(f"{id}: all its rules are ours, and none is the paper's")


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


def are_beside(id: str, other: str) -> bool:
    """Whether an id is that of a part with one word more at the end, or with one word another."""
    words, others = id.split("."), other.split(".")
    if len(others) > len(words):
        return others[:-1] == words
    pairs = list(zip(words, others, strict=False))[2:]  # after the claim's own name
    return len(words) == len(others) and len(pairs) > 1 and sum(a != b for a, b in pairs) == 1


# The kinds of verdict, best first, and what heads their column in the summary.
KINDS = {
    "power": "held with power",
    "held": "held",
    "failed": "not held",
    "open": "not testable",
    "reported": "reported",
}


def kind(claim: Claim, record: dict | None) -> str:
    """Which of KINDS a record is. *power*: it holds, and doing nothing fails the same rule."""
    if record is None or record["holds"] is None:
        return "reported"
    if record["ok"] is None:
        return "open"
    if not record["ok"]:
        return "failed"
    return "power" if record["power"] else "held"


def words(claim: Claim, record: dict | None) -> str:
    """The verdict as the book prints it."""
    if record is None:
        return "not yet"
    if record["holds"] is None:
        return "reported"
    if record["ok"] is None:
        outcome = "holds" if record["holds"] else "fails"
        return f"not testable: {record['data']} data (the rule {outcome} on them)"
    verb = ("held", "not held") if claim.is_ours else ("reproduced", "not reproduced")
    other = " on other data" if record["data"] == "real, other" else ""
    if not record["ok"]:
        return f"{verb[1]}{other}"
    scale = "" if record["scale"] == "paper" else " at quick scale"
    weak = ", without power" if record["power"] is False else ""
    return f"{verb[0]}{other}{scale}{weak}"


def anchor(id: str) -> str:
    """The HTML id of a claim's row on the scoreboard; a part stands under its claim."""
    return "claim-" + id.replace(".", "-").replace("_", "-")
