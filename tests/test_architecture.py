"""Imports go one way, and notebooks tell stories: the rules of CONTRIBUTING.md, kept by machine."""

import ast
from pathlib import Path

import jupytext
import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "acvlib"
MODULES = sorted(PACKAGE.rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))

# Each unit may import those in the same or an earlier row; units of one row do not see each other,
# but for the first row, in which `folds`, `weighting` and `parallel` are independent.
ROWS = [
    {"folds", "weighting", "parallel", "extras", "spatial_folds"},
    {"protocol"},
    {"inference"},
    {"derivatives"},
    {"models", "solvers"},
    {"fit"},
    {"methods"},
    {"diagnostics", "compare", "plots", "sklearn", "bootstrap", "bounds"},
]
APART = {"incremental": {"incremental", "parallel", "extras"}}
# What is not yet as the table says.
EXCEPTIONS = {
    "derivatives": {"solvers"},
    "spatial_folds": {"inference"},
    "sklearn": {"models"},
}


def unit(path):
    """The module or subpackage of acvlib that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def may_import(name):
    """The units that a unit may import from."""
    if name in APART:
        return APART[name]
    place = next(place for place, row in enumerate(ROWS) if name in row)
    return set().union(*ROWS[:place], {name}, EXCEPTIONS.get(name, set()))


def imported(path):
    """Dotted names of all modules that a file imports, relative ones spelled out."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            source = ".".join([*above, *filter(None, [node.module])])
            inside = [f"acvlib.{alias.name}" for alias in node.names]
            yield from inside if source == "acvlib" else [source]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    if path == PACKAGE / "__init__.py":
        return
    ours = {name.split(".")[1] for name in imported(path) if name.startswith("acvlib.")}
    assert ours <= may_import(unit(path))
    others = {name.split(".")[0] for name in imported(path)}
    assert not {"notebooks", "acvbook", "torch"} & others


def code(path):
    return [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_names_its_kernel_and_parameters(path):
    assert jupytext.read(path).metadata["kernelspec"]["name"] == "python3"
    assert {"parameters", "remove-cell"} <= set(code(path)[0].metadata["tags"])


# The chapter on bringing your own model is about a class that its reader writes.
TEACHES_A_CLASS = {"02_your_own_model"}


@pytest.mark.parametrize(
    "path", [p for p in NOTEBOOKS if p.stem not in TEACHES_A_CLASS], ids=lambda path: path.stem
)
def test_notebook_has_short_cells_and_no_logic(path):
    for cell in code(path):
        assert len(cell.source.splitlines()) <= 14, cell.source
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert not [
            node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, definitions)
        ], cell.source
