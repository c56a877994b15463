"""Sphinx extension: docstrings are plain text with `code` in backticks and numpy-style sections.

Nothing else in them is markup but examples (`>>>`) and tables (lines between bars). A section (a
heading, dashes, an item a line) becomes a bold line and a list.
"""

import re
from itertools import groupby

DASHES = re.compile(r"-{3,}")
CODE = re.compile(r"(`+[^`]+`+)")
MARKUP = re.compile(r"([\\|*_])")
LETTER = re.compile(r"^([A-Za-z])\.$")  # "K." is a sentence, and no list


def as_text(line):
    """One line of a docstring as reStructuredText that shows it as it was written."""
    parts = CODE.split(line)
    parts[::2] = [MARKUP.sub(r"\\\1", text) for text in parts[::2]]
    parts[1::2] = [f"``{code.strip('`')}``" for code in parts[1::2]]
    return LETTER.sub(r"\1\.", "".join(parts))


def as_paragraph(lines):
    """A paragraph as reStructuredText, by what it is."""
    if len(lines) > 1 and DASHES.fullmatch(lines[1]):
        items = lines[2:]
        if lines[0] != "Returns":
            items = [re.sub(r"^(?! )(\S+) : ", r"`\1` : ", item) for item in items]
            items = [f"  {i.strip()}" if i.startswith(" ") else f"- {i}" for i in items]
        return [f"**{lines[0]}**", "", *map(as_text, items)]
    if all(line.startswith("| ") for line in lines):
        rows = [[as_text(cell.strip()) for cell in line[2:-1].split(" | ")] for line in lines]
        cells = [f"   {'*' if i == 0 else ' '} - {c}" for row in rows for i, c in enumerate(row)]
        return [".. list-table::", "   :header-rows: 1", "", *cells]
    return lines if lines[0].startswith(">>> ") else [as_text(line) for line in lines]


def rewrite(app, what, name, obj, options, lines):
    """Take what Python itself says of a number for nothing, and all else as plain text."""
    if isinstance(obj, bool | int | float):
        lines.clear()
    text = []
    for is_blank, paragraph in groupby(lines, key=lambda line: not line.strip()):
        paragraph = list(paragraph)
        text += paragraph if is_blank else as_paragraph(paragraph)
    lines[:] = text


def plain_defaults(app, what, name, obj, options, signature, returns):
    """A signature that shows ... where each object gets a default of its own."""
    return (signature or "").replace("<factory>", "...") or signature, returns


def setup(app):
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", plain_defaults)
    return {"parallel_read_safe": True}
