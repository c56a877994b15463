"""Sphinx extension: docstrings are plain text with `code` in backticks; nothing else in them is markup."""

import re

CODE = re.compile(r"(`+[^`]+`+)")
MARKUP = re.compile(r"([\\|*_])")


def as_text(line):
    """One line of a docstring as reStructuredText that shows it as it was written."""
    parts = CODE.split(line)
    parts[::2] = [MARKUP.sub(r"\\\1", text) for text in parts[::2]]
    parts[1::2] = [f"``{code.strip('`')}``" for code in parts[1::2]]
    return "".join(parts)


def rewrite(app, what, name, obj, options, lines):
    lines[:] = [as_text(line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True}
