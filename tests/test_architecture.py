"""Imports go one way, and notebooks tell stories: the rules of CONTRIBUTING.md, kept by machine."""

import ast
from pathlib import Path

import jupytext
import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "acvlib"
MODULES = sorted(PACKAGE.rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))

BASE = {
    "protocol",
    "folds",
    "weighting",
    "chain",
    "lanes",
    "two_state",
    "scaled_chain",
    "active_chain",
    "progress",
    "workers",
    "incremental",
}
BASE |= {"graph", "graph_kernels", "graph_beliefs", "graph_moments", "graph_updates", "graph_folds", "elimination"}
CALCULUS = {"curvature", "krylov", "lissa", "refine", "newton_cg", "chords", "fit", "run"}
METHODS = {"baseline", "jackknife", "frozen", "newton", "exact", "compare", "general"}
MAY_IMPORT = {
    **dict.fromkeys(BASE, BASE),
    **dict.fromkeys(CALCULUS | METHODS, {"protocol", "folds", "progress", "workers"} | CALCULUS),
    **dict.fromkeys(("diagnostics", "ladder"), BASE | CALCULUS | METHODS),
    "figures": {"protocol", "figures"},
    "ledger": {"protocol"},
    "treecv": {"treecv", "incremental", "progress", "workers"},
    "learners": {"learners", "incremental"},
    "datasets": {"datasets", "incremental"},
    "models": BASE | {"models"},
}
ONLY_IN = {"matplotlib": "figures", "torch": "neural"}


def unit(path):
    """The module or subpackage of acvlib that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """Dotted names of all modules that a file imports, relative ones spelled out."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            source = ".".join([*above, *filter(None, [node.module])])
            yield from [f"acvlib.{alias.name}" for alias in node.names] if source == "acvlib" else [source]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    ours = {name.split(".")[1] for name in imported(path) if name.startswith("acvlib.")}
    assert ours <= MAY_IMPORT.get(unit(path), ours)
    others = {name.split(".")[0] for name in imported(path)}
    assert "notebooks" not in others
    assert all(unit(path) == home for package, home in ONLY_IN.items() if package in others)


def code(path):
    return [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_names_its_kernel_and_parameters(path):
    assert jupytext.read(path).metadata["kernelspec"]["name"] == "python3"
    assert {"parameters", "remove-cell"} <= set(code(path)[0].metadata["tags"])


# The chapter on bringing your own model is about a class that its reader writes.
TEACHES_A_CLASS = {"02_your_own_model"}


@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if p.stem not in TEACHES_A_CLASS], ids=lambda path: path.stem)
def test_notebook_has_short_cells_and_no_logic(path):
    for cell in code(path):
        assert len(cell.source.splitlines()) <= 14, cell.source
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert not [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, definitions)], cell.source
