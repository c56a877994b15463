"""Executed notebooks as chapters: readable tables, folded figure code, imports for all to see, and
a frame that says what the chapter asks, what it teaches and what its run took; exercises. Raw
objects among the outputs are refused.
"""

import ast
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
HIDDEN = {"remove-cell", "remove-output"}
HEADING = re.compile(r"<th[^>]*>[^<]+</th>")
# What pandas writes for no number, for more than any, and for an answer.
CELLS = {"NaN": "–", "inf": "∞", "True": "yes", "False": "no"}
CELL = re.compile(rf"(?<=<td>)({'|'.join(CELLS)})(?=</td>)")
SHORT = re.compile(r"\b(aic|bfgs|bic|elpd|em|icl|ij|ns|psis|std|theta)\b")
IN_FULL = {"ns": "Newton step", "std": "SD", "theta": "θ"}  # the others are written in capitals
FRAMES = tomllib.loads(Path("book/chapters.toml").read_text("utf-8"))


def chapter(notebook, frame, exercises=""):
    """The notebook (a dict) as the book shows it, `frame` under its title, `exercises` last."""
    cells = [
        part for cell in notebook["cells"] if not is_injected(cell) for part in imports_apart(cell)
    ]
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


def with_prose_of(source, executed):
    """The executed notebook (a dict) with the Markdown that its source has by now: to mend a
    sentence, nothing has to run again. As it ran, where the source's code is another by now.
    """
    written = jupytext.read(source).cells
    ran = [cell for cell in executed["cells"] if not is_injected(cell)]
    if code_of(written) != code_of(ran):
        print(f"{source}: its code was edited after it ran; shown as it ran")
        return executed
    cells = [
        cell | {"source": new["source"]} if cell["cell_type"] == "markdown" else cell
        for new, cell in zip(written, ran, strict=True)
    ]
    return executed | {"cells": cells}


def code_of(cells):
    """The code of each cell; None for a cell of prose."""
    return ["".join(cell["source"]) if cell["cell_type"] == "code" else None for cell in cells]


def raw_outputs(notebook):
    """What a reader would see of the notebook (a dict) as Python shows objects, not as a table or
    in words.
    """
    shown = [cell for cell in notebook["cells"] if not HIDDEN & set(tags(cell))]
    outputs = [output for cell in shown for output in cell.get("outputs", [])]
    return [text for output in outputs if RAW.search(text := plain_text(output))]


def plain_text(output):
    """An output as text; empty for a table, a picture, and for what is written to stderr."""
    data = output.get("data", {})
    if "text/html" in data or output.get("name") == "stderr":
        return ""
    return "".join(output.get("text", data.get("text/plain", "")))


def refuse_raw_outputs(name, notebook):
    """Exit with the first raw object among the outputs of a chapter."""
    if raw := raw_outputs(notebook):
        sys.exit(f"{name}: raw output, show it as a table or in words: {raw[0]}")


def exercises(name):
    """The Markdown of a chapter's exercises; empty where there are none yet."""
    path = Path("book/exercises", f"{name}.md")
    return path.read_text("utf-8") if path.exists() else ""


def is_injected(cell):
    """Whether a cell sets the scale of a run: who downloads the notebook chooses their own."""
    return "injected-parameters" in tags(cell)


def tags(cell):
    return cell["metadata"].get("tags", [])


def imports_apart(cell):
    """A hidden cell as one or two: its imports, which a reader needs to see, and what follows."""
    if "remove-cell" not in tags(cell) or cell["cell_type"] != "code":
        return [cell]
    source = "".join(cell["source"])
    statements = ast.parse(source).body
    imports = [s.end_lineno for s in statements if isinstance(s, ast.Import | ast.ImportFrom)]
    if not imports:
        return [cell]
    lines = source.splitlines(keepends=True)
    shown = cell | {
        "id": f"{cell['id']}-imports",
        "source": "".join(lines[: imports[-1]]).rstrip(),
        "metadata": cell["metadata"] | {"tags": []},
        "outputs": [],
    }
    rest = "".join(lines[imports[-1] :]).strip()
    return [shown, cell | {"source": rest}] if rest else [shown]


def fold_figure(cell):
    """Fold code of which only the figure is shown, which the text includes from its file."""
    if "remove-output" in tags(cell) and "hide-input" not in tags(cell):
        cell["metadata"]["tags"] = [*tags(cell), "hide-input"]


def read_tables(data):
    if "text/html" in data:
        html = tables.readable("".join(data["text/html"]))
        html = HEADING.sub(in_full, html)
        data["text/html"] = CELL.sub(lambda cell: CELLS[cell[0]], html)


def in_full(heading):
    """A table's heading (a match) with the abbreviations of a name as they are written in prose."""
    return SHORT.sub(lambda word: IN_FULL.get(word[0], word[0].upper()), heading[0])


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
        "Numbers of**": numbers_of(Path("notebooks", f"{name}.py"), folder),
    }


def data_words(name, records):
    """Where the chapter's numbers come from, in the words of *How to read this book*; also data
    that come with a package, of which the ledger does not know.
    """
    words = {record["data"] for record in records if record["notebook"] == name}
    return "; ".join(sorted({*words, *FRAMES[name].get("also", [])}))


def run_words(name, folder, records):
    """Minutes, memory and scale of the run that made the chapter; empty where they are unknown."""
    minutes, gigabytes = cost(name, folder)
    scale = next((r["scale"] for r in records if r["notebook"] == name), "")
    besides = FRAMES[name].get("besides")
    end = f"; besides, {besides}." if besides else "."
    return f"{minutes} minutes and {gigabytes} GB, {scale} scale, one core{end}" if minutes else ""


def numbers_of(source, folder):
    """When the run that `folder` has of a notebook or script was, and whether it is current."""
    run = origin.run_of(source.stem, folder)
    words = origin.in_words(run, origin.changes(run, source))
    return f"{words}." if words else ""


def cost(name, folder):
    """(minutes, gigabytes) of the run that made the chapter; both empty where not known."""
    run = origin.run_of(name, folder)
    return (f"{run['minutes']:g}", f"{run['gigabytes']:g}") if "minutes" in run else ("", "")


def contents(target, folder, records):
    """The start page's table of chapters, as Markdown."""
    head = (
        "| chapter | question | difficulty | data | minutes | GB |\n"
        "| --- | --- | --- | --- | ---: | ---: |"
    )
    present = [name for name in FRAMES if (target / f"{name}.ipynb").exists()]
    return "\n".join([head, *(row(name, target, folder, records) for name in present)])


def row(name, target, folder, records):
    """A chapter's line of the start page's table."""
    link = f"[{title(target / f'{name}.ipynb')}]({name}.ipynb)"
    asked = FRAMES[name]["question"], FRAMES[name]["difficulty"]
    cells = [link, *asked, data_words(name, records), *cost(name, folder)]
    return f"| {' | '.join(cells)} |"


def title(path):
    """The title of a notebook."""
    return TITLE.match("".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"]))[1]
