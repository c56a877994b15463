"""Sphinx extension: docstrings are plain text with `code` in backticks and numpy-style sections.

Nothing else in them is markup. A section (a heading, dashes, an item a line, of which further lines
are indented) becomes a bold line and a list.
"""

import re
from itertools import groupby

DASHES = re.compile(r"-{3,}")
CODE = re.compile(r"(`+[^`]+`+)")
MARKUP = re.compile(r"([\\|*_])")


def as_text(line):
    """One line of a docstring as reStructuredText that shows it as it was written."""
    parts = CODE.split(line)
    parts[::2] = [MARKUP.sub(r"\\\1", text) for text in parts[::2]]
    parts[1::2] = [f"``{code.strip('`')}``" for code in parts[1::2]]
    return "".join(parts)


def as_list(lines):
    """A section as reStructuredText: its heading, and each of its items."""
    heading, _, *items = lines
    text = [f"**{heading}**", ""]
    for item in items:
        term, colon, rest = item.partition(" : ")
        if item.startswith(" "):
            text.append(f"  {as_text(item.strip())}")
        else:
            text.append(f"- {as_text(f'`{term}`{colon}{rest}' if colon else item)}")
    return text


def rewrite(app, what, name, obj, options, lines):
    text = []
    for is_blank, paragraph in groupby(lines, key=lambda line: not line.strip()):
        paragraph = list(paragraph)
        if len(paragraph) > 1 and DASHES.fullmatch(paragraph[1]):
            text += as_list(paragraph)
        else:
            text += paragraph if is_blank else [as_text(line) for line in paragraph]
    lines[:] = text


def setup(app):
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True}
