"""Executed notebooks as chapters: readable tables, folded figure code, and what the run took."""

import json
import re
from pathlib import Path

from acvbook import tables

TITLE = re.compile(r"^# [^\n]*\n", re.MULTILINE)


def chapter(notebook, line):
    """The notebook (a dict) as the book shows it, with `line` under its title."""
    cells = [cell for cell in notebook["cells"] if not is_injected(cell)]
    for cell in cells:
        fold_figure(cell)
        for output in cell.get("outputs", []):
            read_tables(output.get("data", {}))
    title = cells[0]
    title["source"] = TITLE.sub(lambda match: f"{match[0]}\n{line}\n", "".join(title["source"]), 1)
    return notebook | {"cells": cells}


def is_injected(cell):
    """Whether a cell sets the scale of a run: who downloads the notebook chooses their own."""
    return "injected-parameters" in tags(cell)


def tags(cell):
    return cell["metadata"].get("tags", [])


def fold_figure(cell):
    """Fold code of which only the figure is shown, which the text includes from its file."""
    if "remove-output" in tags(cell) and "hide-input" not in tags(cell):
        cell["metadata"]["tags"] = [*tags(cell), "hide-input"]


def read_tables(data):
    if "text/html" in data:
        data["text/html"] = tables.readable("".join(data["text/html"]))


def run_line(name, folder, records):
    """What a chapter's data are, and what its run took, as a line of Markdown."""
    words = sorted({record["data"] for record in records if record["notebook"] == name})
    path = Path(folder, "runs", f"{name}.json")
    took = json.loads(path.read_text("utf-8")) if path.exists() else None
    parts = [f"Data: {'; '.join(words)}."] if words else []
    if took:
        scale = next(record["scale"] for record in records if record["notebook"] == name)
        minutes = f"{took['minutes']:g} minutes and {took['gigabytes']:g} GB of memory"
        parts.append(f"This run ({scale} scale) took {minutes} on one core.")
    return f"```{{div}} run\n{' '.join(parts)}\n```" if parts else ""
