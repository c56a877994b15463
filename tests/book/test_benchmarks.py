"""Benchmarks run by hand: what they import has to be there when somebody does."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))
OURS = ("acvlib", "acvbook")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_it_imports_of_ours_exists(script):
    nodes = ast.walk(ast.parse(script.read_text("utf-8")))
    for node in (each for each in nodes if isinstance(each, ast.ImportFrom)):
        if node.module.startswith(OURS):
            module = import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or import_module(f"{node.module}.{name.name}")
