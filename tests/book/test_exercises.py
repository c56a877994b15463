"""Chapters: short cells without logic, and exercises whose answers are true; errata.

Pages before and after Jupyter Book: what a reader of any kind needs.
"""

import ast
import re
from contextlib import nullcontext
from importlib import import_module

import assemble
import chapters
import jupytext
import pandas as pd
import pytest
from acvbook.prose import CODE
from build_html import finished
from docutils.nodes import math
from mathml import mathml
from places import ROOT

IMPORT = re.compile("(from|import) ")
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def code(path):
    return [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]


# The chapter on bringing your own model is about a class that its reader writes.
TEACHES_A_CLASS = {"02_your_own_model"}
# A model in JAX or PyTorch is a function that its reader writes.
SHOWS_FUNCTIONS = {"00_front_doors"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapter_has_short_cells_no_logic_and_begins_with_its_parameters(path):
    """It shows ten cells of code at most: what is left is a click away."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    if path.stem in SHOWS_FUNCTIONS:
        definitions = (ast.AsyncFunctionDef, ast.ClassDef)
    for cell in [] if path.stem in TEACHES_A_CLASS else code(path):
        lines = [line for line in cell.source.splitlines() if not IMPORT.match(line)]
        assert len(lines) <= 14, cell.source
        nodes = ast.walk(ast.parse(cell.source))
        assert not [node for node in nodes if isinstance(node, definitions)], cell.source
    assert jupytext.read(path).metadata["kernelspec"]["name"] == "python3"
    assert {"parameters", "remove-cell"} <= set(code(path)[0].metadata["tags"])
    hidden = {"hide-input", "remove-cell", "remove-output"}
    shown = [cell for cell in code(path) if not hidden & set(cell.metadata.get("tags", []))]
    assert len(shown) <= (30 if path.stem == "00_front_doors" else 10)


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda script: script.stem)
def test_what_it_imports_of_ours_exists(script):
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith(("acvlib", "acvbook")):
            module = import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or import_module(f"{node.module}.{name.name}")


EXERCISES = ROOT / "book" / "exercises"
WIDTH = 94
ANSWERS = [
    pytest.param(code, id=f"{path.stem}-{number}")
    for path in (*sorted(EXERCISES.glob("*.md")), EXERCISES.parent / "errata.md")
    for number, code in enumerate(CODE.findall(path.read_text("utf-8")))
]


@pytest.mark.parametrize("name", chapters.FRAMES)
def test_each_chapter_has_two_with_folded_answers(name):
    text = (EXERCISES / f"{name}.md").read_text("utf-8")
    assert re.findall(r"^\*\*Exercise (\d)\.\*\*", text, re.MULTILINE) == ["1", "2"]
    assert text.count(":::{dropdown} Answer\n") == 2
    assert text.count("\n:::\n") == 2


@pytest.mark.parametrize("code", ANSWERS)
def test_an_answer_is_true(code):
    assert "assert " in code
    assert max(map(len, code.splitlines())) <= WIDTH
    exec(compile(code, "answer", "exec"), {"__name__": "answer"})


SCRIPT = 'var icons={bars:[448,512,["navicon"],"f0c9","M0 96"],"arrow-up":[3,4,[],"f0","M1"]}'


def test_icons_are_drawn_without_their_font_headers_say_something_and_long_names_may_break():
    """And an unknown command ends the build."""
    for name, path in {"bars": "M0 96", "navicon": "M0 96", "arrow-up": "M1"}.items():
        page = f'<script src="fontawesome.js"></script><i class="fa-solid fa-{name}"></i>'
        drawn = finished(page, SCRIPT)
        assert drawn.startswith(f'<svg class="icon  fa-{name}"')
        assert f'<path d="{path}"/>' in drawn
    with pytest.raises(SystemExit, match="no icon moon"):
        finished('<span class="fa-moon"></span>', SCRIPT)
    code = '<code class="literal"><span class="pre">acv.two_words()</span></code> 0.5'
    page = finished(f"<table><th></th><th>one_name</th></table>{code}", SCRIPT)
    assert "<td></td><th>one_<wbr>name</th>" in page
    assert '<span class="pre">acv.<wbr>two_<wbr>words()</span></code> 0.5' in page
    assert "<mfrac>" in mathml(math("", r"\frac{a}{b}"), "inline")
    with pytest.raises(ValueError, match="cannot be typeset"):
        mathml(math("", r"\unheard x"), "inline")


def cell(source, *tags, kind="code", **more):
    metadata = {"tags": list(tags)}
    return {"cell_type": kind, "id": "1", "source": source, "metadata": metadata, **more}


def test_chapter_is_for_readers():
    columns = {"theta_error": [float("nan"), float("inf")], "b": [True, False]}
    table = pd.DataFrame(columns).to_html()
    notebook = {
        "cells": [
            cell("# Title\n\nText", kind="markdown"),
            cell("scale = 'paper'", "remove-cell", "injected-parameters"),
            cell("import a\nbegin()", "remove-cell"),
            cell("draw()", "remove-output", outputs=[{"data": {"text/html": table}}]),
        ]
    }
    cells = chapters.chapter(notebook, "a line", "**Exercise 1.** Why?")["cells"]
    title, imports, figure, exercises = cells
    assert imports["metadata"]["tags"] == ["hide-input"]
    assert title["source"] == "# Title\n\na line\n\nText"
    assert figure["metadata"]["tags"] == ["remove-output", "hide-input"]
    shown = figure["outputs"][0]["data"]["text/html"]
    assert "parameter error (SE)" in shown
    assert re.findall("<td>(.*?)</td>", shown) == ["–", "yes", "∞", "no"]
    assert exercises["source"] == "## Exercises\n\n**Exercise 1.** Why?"


def test_a_sentence_is_mended_without_a_run_unless_the_code_is_another(tmp_path, capsys):
    source = tmp_path / "one.py"
    source.write_text("# %% [markdown]\n# # Title\n#\n# mended\n\n# %%\ndraw()\n", "utf-8")
    before = cell("# Title\n\nwrong", kind="markdown")
    scale = cell("scale = 'paper'", "remove-cell", "injected-parameters")
    drawings = [cell(code, outputs=["kept"]) for code in ("draw()", "less()")]
    ran, other = ({"cells": [before, scale, drawing]} for drawing in drawings)
    title, drawn = chapters.with_prose_of(source, ran)["cells"]
    assert title["source"] == "# Title\n\nmended"
    assert drawn["outputs"] == ["kept"]
    assert chapters.with_prose_of(source, other) is other
    assert "edited after it ran" in capsys.readouterr().out


RAW = ["{'hessian': 1.39e-10}", "(1000, 14, 3)", "'largest difference 1.6e-13'"]
RAW += ["array([0.9789, 0.9824])", "passes: {'hessian': '1e-10'}", "a loss of np.float64(0.5)"]
RAW += ["fold\n0    0.5\ndtype: float64"]
FOR_READERS = ["Fit of 3 parameters, Newton decrement 1e-10 standard errors"]
FOR_READERS += ["exact loss in [0.0742, 0.0773]"]


@pytest.mark.parametrize("text", [*RAW, *FOR_READERS])
def test_raw_objects_among_the_outputs_are_refused(text):
    printed = {"output_type": "stream", "name": "stdout", "text": [text]}
    returned = {"output_type": "execute_result", "data": {"text/plain": text}}
    for output in (printed, returned):
        notebook = {"cells": [cell("show()", outputs=[output])]}
        with pytest.raises(SystemExit) if text in RAW else nullcontext():
            chapters.refuse_raw_outputs("01_traffic", notebook)
    beside_a_table = {"data": {"text/plain": text, "text/html": "<table></table>"}}
    warned = {"output_type": "stream", "name": "stderr", "text": [text]}
    hidden = cell("show()", "remove-output", outputs=[printed])
    cells = [cell("show()", outputs=[beside_a_table, warned]), hidden]
    chapters.refuse_raw_outputs("01_traffic", {"cells": cells})


def test_frame_says_what_is_asked_and_took_contents_what_is_there(tmp_path, monkeypatch, capsys):
    asked = {"question": "Why?", "learn": ["this", "that"], "needs": "algebra"}
    monkeypatch.setattr(chapters, "FRAMES", {"a": asked, "b": asked})
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/a.json").write_text('{"minutes": 1.5, "gigabytes": 2.0}')
    records = [{"notebook": "a", "data": "real", "scale": "quick"}]
    frame = chapters.frame("a", tmp_path, records)
    assert "**Question**: Why?" in frame
    assert "**You learn**: this; that." in frame
    assert "**Data**: real" in frame
    assert "1.5 minutes and 2 GB, quick scale" in frame
    assert "Run" not in chapters.frame("b", tmp_path, records)
    monkeypatch.undo()
    names = [*chapters.FRAMES][:2]
    lines = ["  - file: how_to_read\n", *(f"  - file: {name}\n" for name in names)]
    (tmp_path / "_toc.yml").write_text("".join(lines), "utf-8")
    (tmp_path / f"{names[0]}.ipynb").write_text("{}", "utf-8")
    assemble.leave_out_missing(tmp_path)
    assert (tmp_path / "_toc.yml").read_text("utf-8") == "".join(lines[:2])
    assert names[1] in capsys.readouterr().out


def test_ten_minutes_run_and_end_in_a_decision(capsys):
    page = (ROOT / "book/ten_minutes.md").read_text("utf-8")
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.S)), names)
    printed = capsys.readouterr().out
    shown = "".join(re.findall(r"```text\n(.*?)```", page, re.S))
    words = [re.sub(r", [\d.]+ s\)", ")", text).split() for text in (printed, shown)]
    assert words[0] == words[1]
    assert "best: 2" in printed
    assert names["careful"].folds is names["blocks"]
