"""Executed notebooks as chapters: readable tables, folded code of figures and imports, and a frame
that says what the chapter asks, what it teaches and what its run took; exercises. Raw objects among
the outputs are refused.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

import jupytext
from acvbook import origin, tables

TITLE = re.compile(r"^# ([^\n]*)\n", re.MULTILINE)
# How Python shows a dict, a list, a tuple, a text, an array, a Series: not a sentence to read.
RAW = re.compile(r"^[{\[('\"]|\{'|\barray\(|\bnp\.\w+\(|\bCounter\(|\bdtype: ")
IMPORT = re.compile(r"^(?:import|from) ", re.M)
HIDDEN = {"remove-cell", "remove-output"}
# What pandas writes for no number, for more than any, and for an answer.
CELLS = {"NaN": "–", "inf": "∞", "True": "yes", "False": "no"}
CELL = re.compile(rf"(?<=<td>)({'|'.join(CELLS)})(?=</td>)")
FRAMES = tomllib.loads(Path("book/chapters.toml").read_text("utf-8"))


def chapter(notebook, frame, exercises=""):
    """The notebook (a dict) as the book shows it, `frame` under its title, `exercises` last."""
    cells = [cell for cell in notebook["cells"] if not is_injected(cell)]
    for cell in cells:
        if "remove-cell" in tags(cell) and IMPORT.search("".join(cell["source"])):
            cell["metadata"]["tags"] = ["hide-input"]  # what a reader needs to see, and links
        if "remove-output" in tags(cell):  # the text includes the figure from its file
            cell["metadata"]["tags"] = [*tags(cell), "hide-input"]
        for output in cell.get("outputs", []):
            read_tables(output.get("data", {}))
    title = cells[0]
    title["source"] = TITLE.sub(lambda match: f"{match[0]}\n{frame}\n", "".join(title["source"]), 1)
    if exercises:
        text = f"## Exercises\n\n{exercises}"
        end = {"cell_type": "markdown", "id": "exercises", "metadata": {}, "source": text}
        cells = [*cells, end]
    return notebook | {"cells": cells}


def with_prose_of(source, executed):
    """The executed notebook (a dict) with the Markdown that its source has by now: to mend a
    sentence, nothing has to run again. As it ran, where the source's code is another by now.
    """
    written = jupytext.read(source).cells
    ran = [cell for cell in executed["cells"] if not is_injected(cell)]
    codes = [
        ["".join(cell["source"]) if cell["cell_type"] == "code" else None for cell in cells]
        for cells in (written, ran)
    ]
    if codes[0] != codes[1]:
        print(f"{source}: its code was edited after it ran; shown as it ran")
        return executed
    pairs = zip(written, ran, strict=True)
    return executed | {"cells": [cell | {"source": new["source"]} for new, cell in pairs]}


def refuse_raw_outputs(name, notebook):
    """Exit where a reader would see an object as Python shows it, not as a table or in words."""
    shown = [cell for cell in notebook["cells"] if not HIDDEN & set(tags(cell))]
    for output in (output for cell in shown for output in cell.get("outputs", [])):
        data = output.get("data", {})
        text = "".join(output.get("text", data.get("text/plain", "")))
        is_seen = "text/html" not in data and output.get("name") != "stderr"
        if is_seen and RAW.search(text):
            sys.exit(f"{name}: raw output, show it as a table or in words: {text}")


def is_injected(cell):
    """Whether a cell sets the scale of a run: who downloads the notebook chooses their own."""
    return "injected-parameters" in tags(cell)


def tags(cell):
    return cell["metadata"].get("tags", [])


def read_tables(data):
    """Put a table's headings and cells as they are written in prose."""
    if "text/html" in data:
        html = tables.readable("".join(data["text/html"]))
        data["text/html"] = CELL.sub(lambda cell: CELLS[cell[0]], html)


def frame(name, folder, records):
    """What a chapter asks and teaches, what it needs, its data and its run, as Markdown."""
    chapter, (minutes, gigabytes) = FRAMES[name], cost(name, folder)
    scale = next((r["scale"] for r in records if r["notebook"] == name), "")
    facts = {
        "Question": chapter["question"],
        "You learn": "; ".join(chapter["learn"]) + ".",
        "You need": chapter["needs"] + ".",
        "Data": data_words(name, records),
        "Run": f"{minutes} minutes and {gigabytes} GB, {scale} scale, one core." if minutes else "",
        "Numbers of": numbers_of(Path("notebooks", f"{name}.py"), folder),
    }
    lines = [f"**{heading}**: {text}\n" for heading, text in facts.items() if text]
    return "\n".join(["```{div} frame", *lines, "```"])


def data_words(name, records):
    """Where the chapter's numbers come from, in the words of *How to read this book*; also data
    that come with a package, of which the ledger does not know.
    """
    words = {record["data"] for record in records if record["notebook"] == name}
    return "; ".join(sorted({*words, *FRAMES[name].get("also", [])}))


def numbers_of(source, folder):
    """When the run that `folder` has of a notebook or script was, and whether it is current."""
    run = origin.run_of(source.stem, folder)
    words = origin.in_words(run, origin.changes(run, source))
    return f"{words}." if words else ""


def cost(name, folder):
    """(minutes, gigabytes) of the run that made the chapter; both empty where not known."""
    run = origin.run_of(name, folder)
    return [f"{run[unit]:g}" if unit in run else "" for unit in ("minutes", "gigabytes")]


def contents(target, folder, records, path):
    """The start page's table of the chapters of a path, "papers" or "use", as Markdown."""
    lines = ["| chapter | question | difficulty | data | minutes | GB |"]
    lines += ["| --- | --- | --- | --- | ---: | ---: |"]
    for name, chapter in FRAMES.items():
        file = target / f"{name}.ipynb"
        if chapter["path"] == path and file.exists():
            first = json.loads(file.read_text("utf-8"))["cells"][0]
            link = f"[{TITLE.match(''.join(first['source']))[1]}]({name}.ipynb)"
            asked = chapter["question"], chapter["difficulty"]
            cells = [link, *asked, data_words(name, records), *cost(name, folder)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
