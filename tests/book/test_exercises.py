"""Chapters: short cells without logic, and exercises whose answers are true; errata."""

import ast
import re
from importlib import import_module

import chapters
import jupytext
import pytest
from acvbook.prose import CODE
from places import ROOT

IMPORT = re.compile("(from|import) ")
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
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
