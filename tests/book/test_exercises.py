"""Exercises: two a chapter, with folded answers whose code does what they say; and errata."""

import re

import chapters
import pytest
from acvbook.prose import CODE
from places import ROOT

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
    """It asserts what it claims, in lines that fit into the fold."""
    assert "assert " in code
    assert max(map(len, code.splitlines())) <= WIDTH
    exec(compile(code, "answer", "exec"), {"__name__": "answer"})


def test_exercises_end_the_chapter():
    notebook = {"cells": [{"source": "# Title\n", "metadata": {}}]}
    last = chapters.chapter(notebook, "a line", "**Exercise 1.** Why?")["cells"][-1]
    assert last["source"] == "## Exercises\n\n**Exercise 1.** Why?"
