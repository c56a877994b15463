"""Sphinx extension: docstrings are plain text with `code` in backticks and numpy-style sections.

Nothing else in them is markup but examples (`>>>`) and tables (lines between bars). A section (a
heading, dashes, an item a line, of which further lines are indented) becomes a bold line and a
list. What Python itself says of an attribute, and not the author, is left out.
"""

import inspect
import re
from itertools import groupby

DASHES = re.compile(r"-{3,}")
CODE = re.compile(r"(`+[^`]+`+)")
MARKUP = re.compile(r"([\\|*_])")
LETTER = re.compile(r"^([A-Za-z])\.$")  # "K." is a sentence, and no list
PROMPT = ">>> "
DEFAULT = re.compile(r"<(?:function|class) '?([\w.]+)'?>")
OF_NAMEDTUPLE = re.compile(r"Alias for field number \d+")


def as_text(line):
    """One line of a docstring as reStructuredText that shows it as it was written."""
    parts = CODE.split(line)
    parts[::2] = [MARKUP.sub(r"\\\1", text) for text in parts[::2]]
    parts[1::2] = [f"``{code.strip('`')}``" for code in parts[1::2]]
    return LETTER.sub(r"\1\.", "".join(parts))


def as_list(lines):
    """A section as reStructuredText: its heading, and each of its items."""
    heading, _, *items = lines
    text = [f"**{heading}**", ""]
    if heading == "Returns":
        return [*text, *map(as_text, items)]
    for item in items:
        term, colon, rest = item.partition(" : ")
        if item.startswith(" "):
            text.append(f"  {as_text(item.strip())}")
        else:
            text.append(f"- {as_text(f'`{term}`{colon}{rest}' if colon else item)}")
    return text


def as_table(lines):
    """Lines of cells between bars, the headings first, as reStructuredText."""
    text = [".. list-table::", "   :header-rows: 1", ""]
    for line in lines:
        first, *others = (as_text(cell.strip()) for cell in line[2:-1].split(" | "))
        text += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return text


def as_paragraph(lines):
    """A paragraph as reStructuredText, by what it is."""
    if len(lines) > 1 and DASHES.fullmatch(lines[1]):
        return as_list(lines)
    if all(line.startswith("| ") for line in lines):
        return as_table(lines)
    if lines[0].startswith(PROMPT):
        return lines
    return [as_text(line) for line in lines]


def is_inherited(obj, lines):
    """Whether a text is what Python says of any number."""
    is_number = isinstance(obj, bool | int | float)
    return is_number and lines[:1] == inspect.getdoc(type(obj)).splitlines()[:1]


def rewrite(app, what, name, obj, options, lines):
    if is_inherited(obj, lines):
        lines.clear()
    text = []
    for is_blank, paragraph in groupby(lines, key=lambda line: not line.strip()):
        paragraph = list(paragraph)
        text += paragraph if is_blank else as_paragraph(paragraph)
    lines[:] = text


def plain_defaults(app, what, name, obj, options, signature, returns):
    """A signature whose defaults are names, or ... where each object gets one of its own."""
    named = DEFAULT.sub(r"\1", (signature or "").replace("<factory>", "..."))
    return named or signature, returns


def skip(app, what, name, obj, is_skipped, options):
    """Leave out fields of named tuples, which their class describes, and a setting whose default is
    a function with a name of its own: it is no method.
    """
    is_field = OF_NAMEDTUPLE.fullmatch(getattr(obj, "__doc__", None) or "")
    is_setting = inspect.isfunction(obj) and obj.__name__ not in (name, "<lambda>")
    return True if what == "class" and (is_field or is_setting) else None


def setup(app):
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", plain_defaults)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}
