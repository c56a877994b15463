"""Numbers in prose: filled in from the ledger by the build, and refused where they are typed.

Three roles stand in the Markdown of chapters and pages:

- ``{value}`ID FIELD | FORMAT` ``: a record's number. FIELD is `value` (the default), `baseline`,
  `low` or `high` (the ends of the spread), `draws` or `seconds`; FORMAT as in Python's `format`.
- ``{verdict}`ID` ``: a badge with the verdict, linked to the claim's row on the scoreboard.
- ``{given}`384` ``: a number that a paper, a data set or a setting gives.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import jupytext
from nbformat.v4 import new_code_cell, new_markdown_cell

from .claims import Claim, LedgerError, anchor, kind, load_claims, words

NOT_MEASURED = "(not in this run)"
_ROLE = re.compile(r"\{(value|verdict|given)\}`([^`]+)`")
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MAGIC = re.compile(r"^[%!].*$", re.MULTILINE)
_FIELDS = ("value", "baseline", "low", "high", "draws", "seconds")

# What a numeral may stand in: code, math, links, roles, and the options and heads of directives.
_NOT_PROSE = re.compile(
    r"^```+(?:\{math\}|(?!\{)).*?^```+ *$"
    r"|\$\$.*?\$\$|\$[^$]+\$"
    r"|\{[\w:.-]+\}`[^`]*`|(?<!`)(``?)(?!`).*?(?<!`)\1(?!`)"
    r"|\]\([^)]*\)|<[^>]*>|https?://\S+"
    r"|^:\w[\w-]*:[^\n]*|^[`:]{3,}\{[^\n]*",
    re.MULTILINE | re.DOTALL,
)
_NAMED = re.compile(
    r"\b(?:Figures?|Tables?|Eqs?\.|Equations?|Sections?|Theorems?|Propositions?|Corollar(?:y|ies)"
    r"|Algorithms?|Appendix|[Cc]hapters?|Lemmas?|Assumptions?|Rules?)\s"
    r"+\(?\d+(?:\.\d+)?\)?(?:(?:,| and| to|–)\s*\(?\d+(?:\.\d+)?\)?)*"
)
_NUMERAL = re.compile(r"(?<![\w.])(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e-?\d+)?(?!\w)")


def fill(text: str, records: dict[str, dict], claims: dict[str, Claim]) -> str:
    """`text` with its roles replaced; LedgerError for an id or a field that is not known."""
    fillers: dict[str, Callable[[str], str]] = {
        "given": str,
        "value": lambda content: _value(content, records, claims),
        "verdict": lambda content: _badge(content, records, claims),
    }
    return _ROLE.sub(lambda match: fillers[match[1]](match[2]), text)


def _value(content, records, claims):
    name, _, form = (part.strip() for part in content.partition("|"))
    id, _, field = name.partition(" ")
    field = field or "value"
    _known(id, claims, records)
    if field not in _FIELDS:
        raise LedgerError(f"{{value}}`{content}`: {field} is none of {', '.join(_FIELDS)}")
    if id not in records:
        return NOT_MEASURED
    record = records[id]
    ends = dict(zip(("low", "high"), record["spread"] or (None, None), strict=True))
    number = (record | ends)[field]
    if number is None:
        raise LedgerError(f"{{value}}`{content}`: {id} was recorded without {field}")
    return format(number, form) if form else plain(number)


def plain(number: object) -> str:
    """A number to three significant digits, and thousands with commas; anything else as it is."""
    if isinstance(number, bool):
        return "yes" if number else "no"
    if isinstance(number, int) or (isinstance(number, float) and abs(number) >= 1000):
        return f"{number:,.0f}"
    return f"{number:.3g}" if isinstance(number, float) else str(number)


def _badge(id, records, claims):
    _known(id, claims, records)
    if id not in claims:
        return f'<span class="verdict">{id}: a claim no more</span>'
    claim, record = claims[id], records.get(id)
    target = f'href="scoreboard.html#{anchor(id)}"'
    style = f'class="verdict verdict-{kind(claim, record)}"'
    return f"<a {style} {target}>{id}: {words(claim, record)}</a>"


def _known(id, claims, records):
    """A published chapter may cite what it recorded and its source, since, does not."""
    if id not in claims and id not in records:
        raise LedgerError(f"{id} is not listed in book/claims")


def problems(notebooks: Path, claims: dict[str, Claim] | None = None) -> list[str]:
    """What is wrong in the sources of the chapters, one sentence each: numbers typed into prose,
    roles that name no claim, judged constants, and claims whose figure or badge is missing.
    """
    claims = claims or load_claims()
    return [
        f"{path.stem}: {found}"
        for path in sorted(notebooks.glob("*.py"))
        for found in of_chapter(path.stem, cells_of(path), claims)
    ]


def cells_of(notebook: Path) -> list:
    """The cells of a chapter's source, and its exercises as further ones."""
    path = notebook.parent.parent / "book" / "exercises" / f"{notebook.stem}.md"
    text = path.read_text("utf-8") if path.exists() else ""
    code = [new_code_cell(answer) for answer in CODE.findall(text)]
    return [*jupytext.read(notebook).cells, new_markdown_cell(text), *code]


def of_chapter(name: str, cells: list, claims: dict[str, Claim]) -> Iterator[str]:
    """What is wrong in the cells of one notebook."""
    own = [claim for claim in claims.values() if claim.notebook == name]
    code = ast.parse(_MAGIC.sub("", "\n".join(c.source for c in cells if c.cell_type == "code")))
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    allowed = literals(code) | numerals_of(own)
    for text in prose:
        for numeral, line in typed_numbers(text, allowed):
            yield f"{numeral} is typed, not from the ledger: {line!r}"
        for role, content in _ROLE.findall(text):
            if role != "given" and content.split()[0].rstrip("|") not in claims:
                yield f"{{{role}}}`{content}` names no claim"
    yield from _figures("\n".join(prose), own)
    judged = {claim.id for claim in claims.values() if claim.must and not claim.parts}
    for id in judged_constants(code, judged):
        yield f"the value of {id} is a constant: no rule can be tested on it"


def _figures(prose, own):
    names = set(re.findall(r"^:name: *(\S+)", prose, re.MULTILINE))
    badges = {content for role, content in _ROLE.findall(prose) if role == "verdict"}
    for claim in own:
        if claim.figure and claim.figure not in names:
            yield f"{claim.id}: no figure has :name: {claim.figure}"
        inherited = any(claim.id.startswith(f"{id}.") for id in badges)
        if claim.figure and claim.id not in badges and not inherited:
            yield f"{claim.id}: no {{verdict}}`{claim.id}` under its figure"


def typed_numbers(text: str, allowed: set[float]) -> Iterator[tuple[str, str]]:
    """Each numeral of Markdown `text`, with its line, that neither a role fills in nor `allowed`
    lists. Whole numbers up to 4, years, and the numbers of figures and tables may be typed.
    """
    bare = _NAMED.sub(_blank, _NOT_PROSE.sub(_blank, text))
    for match in _NUMERAL.finditer(bare):
        number = _number(match[0])
        small = number == int(number) and (number <= 4 or 1900 <= number <= 2100)
        if not small and number not in allowed:
            start = text.rfind("\n", 0, match.start()) + 1
            yield match[0], text[start:].partition("\n")[0]


def _blank(match):
    """As many spaces, so that what follows keeps its place in the text."""
    return re.sub(r"[^\n]", " ", match[0])


def _number(numeral):
    return float(numeral.replace(",", ""))


def _numbers_in(text):
    return {_number(numeral) for numeral in _NUMERAL.findall(text)}


def numerals_of(claims: list[Claim]) -> set[float]:
    """The numbers in what the papers say: `paper`, `source`, `shows` and the rules."""
    texts = [f"{c.paper} {c.source} {c.shows} {' '.join(c.must.values())}" for c in claims]
    return set().union(*map(_numbers_in, texts))


def literals(code: ast.AST) -> set[float]:
    """The numbers written in code, and in its texts."""
    found: set[float] = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            found.add(float(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= _numbers_in(node.value)
    return found


def judged_constants(code: ast.Module, judged: set[str]) -> Iterator[str]:
    """Ids in `judged` that a `ledger.record` of `code` gives a value known without running it."""
    known = _constants(code)
    for node in ast.walk(code):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr == "record" and len(node.args) > 1 and _constant(node.args[1], known):
            pattern = re.compile(_pattern(node.args[0]))
            yield from sorted(id for id in judged if pattern.fullmatch(id))


def _constants(code):
    """Names that are only ever assigned constants."""
    known: set[str] = set()
    for statement in code.body:
        if isinstance(statement, ast.Assign) and _constant(statement.value, known):
            known |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    stored = (n for n in ast.walk(code) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    times = Counter(name.id for name in stored)
    return {name for name in known if times[name] == 1}


def _constant(node, known):
    """Whether an expression has no part that a run decides."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names <= known | {"len", "int", "float"}


def _pattern(node):
    """A regular expression for the ids that an expression can be."""
    if isinstance(node, ast.Constant):
        return re.escape(str(node.value))
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(part) for part in node.values)
    return ".*"
