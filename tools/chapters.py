"""Executed notebooks as chapters: readable tables, folded figure code, and a frame that says what
the chapter asks, what it teaches and what its run took; exercises.
"""

import json
import re
import tomllib
from pathlib import Path

from acvbook import tables

TITLE = re.compile(r"^# ([^\n]*)\n", re.MULTILINE)
FRAMES = tomllib.loads(Path("book/chapters.toml").read_text("utf-8"))


def chapter(notebook, frame, exercises=""):
    """The notebook (a dict) as the book shows it, `frame` under its title, `exercises` last."""
    cells = [cell for cell in notebook["cells"] if not is_injected(cell)]
    for cell in cells:
        fold_figure(cell)
        for output in cell.get("outputs", []):
            read_tables(output.get("data", {}))
    title = cells[0]
    title["source"] = TITLE.sub(lambda match: f"{match[0]}\n{frame}\n", "".join(title["source"]), 1)
    if exercises:
        text = f"## Exercises\n\n{exercises}"
        end = {"cell_type": "markdown", "id": "exercises", "metadata": {}, "source": text}
        cells = [*cells, end]
    return notebook | {"cells": cells}


def exercises(name):
    """The Markdown of a chapter's exercises; empty where there are none yet."""
    path = Path("book/exercises", f"{name}.md")
    return path.read_text("utf-8") if path.exists() else ""


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


def frame(name, folder, records):
    """What a chapter asks and teaches, what it needs, its data and its run, as Markdown."""
    lines = [f"{heading}: {text}" for heading, text in facts(name, folder, records).items() if text]
    return "\n".join(["```{div} frame", *(f"**{line}\n" for line in lines), "```"])


def facts(name, folder, records):
    """{heading: text}; headings end a bold part that each line begins."""
    chapter = FRAMES[name]
    return {
        "Question**": chapter["question"],
        "You learn**": "; ".join(chapter["learn"]) + ".",
        "You need**": chapter["needs"] + ".",
        "Data**": data_words(name, records),
        "Run**": run_words(name, folder, records),
    }


def data_words(name, records):
    """Where the chapter's numbers come from, in the words of *How to read this book*."""
    return "; ".join(sorted({r["data"] for r in records if r["notebook"] == name}))


def run_words(name, folder, records):
    """Minutes and memory of the run that made the chapter; empty where they are not known."""
    path = Path(folder, "runs", f"{name}.json")
    if not path.exists():
        return ""
    took = json.loads(path.read_text("utf-8"))
    scale = next((r["scale"] for r in records if r["notebook"] == name), "")
    return f"{took['minutes']:g} minutes and {took['gigabytes']:g} GB, {scale} scale, one core."


def contents(target, folder, records):
    """The start page's table of chapters, as Markdown."""
    head = "| chapter | question | data | run |\n| --- | --- | --- | --- |"
    rows = [
        f"| [{title(target / f'{name}.ipynb')}]({name}.ipynb) | {chapter['question']} "
        f"| {data_words(name, records)} | {run_words(name, folder, records)} |"
        for name, chapter in FRAMES.items()
        if (target / f"{name}.ipynb").exists()
    ]
    return "\n".join([head, *rows])


def title(path):
    """The title of a notebook."""
    return TITLE.match("".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"]))[1]
