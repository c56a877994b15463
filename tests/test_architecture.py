"""Imports go one way, the book sees what is public of the library, and what is public has types."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from places import ROOT

import acvlib

PACKAGE = ROOT / "acvlib"
MODULES = sorted(PACKAGE.rglob("*.py"))  # acvlib/__init__.py first
SOLVERS = PACKAGE / "solvers" / "__init__.py"  # each module of it has a place of its own
BOOK = sorted([*(ROOT / "book" / "acvbook").rglob("*.py"), *(ROOT / "notebooks").glob("*.py")])

# A unit may import from the rows above its own, and from itself; units of one row do not see each
# other. `acvlib/__init__.py` alone, which hands names on, stands outside.
ROWS = [
    {"checks"},
    {"declared"},
    {"folds", "weighting", "parallel", "scores"},
    {"model", "trials", "solvers.inverse"},
    {"inference", "solvers.krylov"},
    {"derivatives"},
    {"results"},
    {"models", "solvers.newton", "solvers.newton_cg"},
    {"fit"},
    {"methods"},
    {"check"},
    {"diagnostics", "compare", "plots", "bootstrap"},
    {"adapters", "beyond"},
    {"sklearn"},
]
BESIDE = {"adapters", "beyond", "rows", "sklearn"}  # folders without which the core works
APART = {
    "treecv": {"checks", "declared", "folds", "parallel", "scores", "treecv"},
    "rows": {"checks", "declared", "parallel", "rows", "treecv"},
}
# Extras: imported in the function that uses them.
EXTRAS = {"pandas", "matplotlib", "sklearn", "dask", "distributed", "pyarrow"}
NEVER = {"acvbook", "notebooks"}
# Not even extras: brought by who writes models in them or has maps, and imported by one module.
BROUGHT = {"jax": "adapters.jax", "torch": "adapters.torch", "shapely": "models.mrf.areas"}


def dotted(path):
    """The name of a module below acvlib: "solvers.newton", "models.hmm", "" for acvlib itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def unit(name):
    """The entry of the table that covers a module of acvlib."""
    for known in set().union(*ROWS, APART):
        if name == known or name.startswith(f"{known}."):
            return known
    raise LookupError(f"acvlib.{name} is in no row of the table")


def may_import(name):
    if name in APART:
        return APART[name]
    place = next(place for place, row in enumerate(ROWS) if name in row)
    return set().union(*ROWS[:place], {name})


def imported(path, nodes=None):
    """(module, name or None) of what a file, or some of its nodes, imports; none is relative."""
    package = path.relative_to(ROOT).parent.parts
    for node in nodes or ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            source = ".".join([*above, *filter(None, [node.module])])
            yield from ((source, alias.name) for alias in node.names)


def parsed(path):
    return ast.parse(path.read_text("utf-8"))


def of_acvlib(imports):
    """Names below acvlib of the modules that imports reach into."""
    known = {dotted(path) for path in MODULES}
    for source, name in imports:
        if source.split(".")[0] == "acvlib":
            module = source.removeprefix("acvlib").lstrip(".")
            inner = f"{module}.{name}".lstrip(".")
            yield inner if inner in known else module


def relative(path):
    return str(path.relative_to(ROOT))


def test_the_table_names_what_there_is_without_a_circle_and_families_do_not_see_each_other():
    """Every module can be loaded before all that import it at their top."""
    at_the_top = {dotted(path): imported(path, parsed(path).body) for path in MODULES[1:]}
    waiting = {name: set(of_acvlib(found)) - {name} for name, found in at_the_top.items()}
    while waiting:
        ready = {name for name, needs in waiting.items() if not needs & set(waiting)}
        assert ready, {name: needs & set(waiting) for name, needs in waiting.items()}
        waiting = {name: needs for name, needs in waiting.items() if name not in ready}
    family = re.compile(r"models\.(\w+)")
    for path in MODULES:
        me = family.match(dotted(path))
        if me:
            others = {m[1] for name in of_acvlib(imported(path)) if (m := family.match(name))}
            assert others <= {me[1]}, (relative(path), others)
    assert set().union(*ROWS, APART) <= {dotted(path) for path in MODULES}
    core = set().union(*ROWS) - BESIDE
    assert not any(may_import(name) & BESIDE for name in core)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_go_one_way_and_extras_are_imported_where_they_are_used(path):
    if path != MODULES[0]:
        seen = {unit(name) for name in of_acvlib(imported(path))}
        allowed = may_import(unit(dotted(path))) if path != SOLVERS else set()
        assert not seen - allowed
    everywhere = {source.split(".")[0] for source, _ in imported(path)}
    at_the_top = {source.split(".")[0] for source, _ in imported(path, parsed(path).body)}
    assert not everywhere & NEVER
    assert {BROUGHT[source] for source in everywhere & set(BROUGHT)} <= {dotted(path)}
    assert not at_the_top & EXTRAS


def documented():
    pages = tomllib.loads((ROOT / "book" / "api.toml").read_text("utf-8"))
    shown = {entry.partition(":")[0] for page in pages.values() for entry in page["entries"]}
    return {name.removeprefix("acvlib").lstrip(".") for name in shown if "acvlib" in name}


@pytest.mark.parametrize("path", BOOK, ids=relative)
def test_the_book_imports_what_is_public(path):
    imports = [each for each in imported(path) if each[0].split(".")[0] == "acvlib"]
    assert not [pair for pair in imports if re.search(r"(^|\.)_", f"{pair[0]}.{pair[1]}")]
    assert set(of_acvlib(imports)) <= documented() | {""}


def is_public(path):
    """Modules that the library reference shows, those of the models among them by their names."""
    return dotted(path) in documented() or re.fullmatch(r"models\.\w+", dotted(path))


@pytest.mark.parametrize("path", [path for path in MODULES[1:] if is_public(path)], ids=relative)
def test_public_functions_have_types(path):
    """Kernels, which numba types, are left out."""
    module = parsed(path)
    classes = [n for n in module.body if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
    every = [n for part in (module, *classes) for n in part.body if isinstance(n, ast.FunctionDef)]
    for node in every:
        kernel = any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        named = [argument for argument in arguments if argument.arg not in ("self", "cls")]
        typed = node.returns is not None and all(argument.annotation for argument in named)
        assert typed or kernel or node.name[0] == "_", f"{node.name}, line {node.lineno}"


@pytest.mark.parametrize("folder", sorted(BESIDE))
def test_the_core_works_without_the_folders_beside_it(folder, tmp_path):
    """A copy without the folder fits, cross-validates and compares; no module of it is missed."""
    shutil.copytree(PACKAGE, tmp_path / "acvlib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "acvlib" / folder)
    code = """
import numpy as np, acvlib as acv
rng = np.random.default_rng(0)
model = acv.models.GLM(rng.normal(size=(40, 2)), rng.normal(size=40), "gaussian")
rungs = acv.ladder(acv.fit(model), acv.folds.k_fold(40, 4))
print(acv.__file__, len(rungs), acv.check_result(rungs["newton_step"]).unreliable.sum())
acv.compare_methods(*reversed(rungs.values()))
"""
    place = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(tmp_path)}}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, **place)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(tmp_path / "acvlib/__init__.py"), "5", "0"]


BOTH = [tomllib.loads((ROOT / p / "pyproject.toml").read_text("utf-8")) for p in ("", "book")]
PROJECT, OF_BOOK = (each["project"] for each in BOTH)
BUILD = BOTH[0]["build-system"]["requires"]
EVERYTHING = {*PROJECT["dependencies"], *OF_BOOK["dependencies"]}
EVERYTHING = EVERYTHING.union(*PROJECT["optional-dependencies"].values())
DIRECT = sorted(each for each in EVERYTHING if not each.startswith("acvlib["))
LOCK = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
LOCK = [line for line in LOCK if line[0] != "#"]


def name(requirement):
    """Name of a requirement, spelled as package indexes compare it."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_conda_environment_and_recipe_have_what_acvlib_needs_and_its_version():
    text = (ROOT / "environment.yml").read_text("utf-8")
    listed = re.findall(r"^ +- (\S+[=<>].*?)\s*$", text, re.MULTILINE)
    assert sorted(listed) == sorted([*DIRECT, f"python{PROJECT['requires-python']}"])
    text = (ROOT / "tools/conda/recipe.yaml").read_text("utf-8")
    listed = re.findall(r"^ +- (\S+) (>=\S+)$", text, re.MULTILINE)
    needed = 2 * [f"python{PROJECT['requires-python']}"] + BUILD + PROJECT["dependencies"]
    assert sorted(map("".join, listed)) == sorted(needed)
    assert f"\n  version: {acvlib.__version__}\n" in text


def test_the_lock_is_portable_and_all_in_it_has_hashes_but_torch():
    """`make lock` refreshes them; a wheel of torch is another one on every machine."""
    hashed = {}
    for path in (ROOT / "requirements").glob("*.txt"):
        entries = re.split(r"\n(?=\w)", path.read_text("utf-8").strip())
        hashed |= {name(entry): entry for entry in entries}
    locked = {name(line): line.split("==")[1] for line in LOCK}
    assert set(locked) - {"torch"} == set(hashed)
    for package, entry in hashed.items():
        version, *hashes = re.split(r"\s*\\\s+", entry)
        assert version.split("==")[1] == locked[package], version
        assert hashes, package
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), package
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in LOCK)
    assert not [line for line in LOCK if line.startswith(("nvidia", "triton"))]


@pytest.mark.parametrize("requirement", DIRECT)
def test_dependency_is_locked_and_has_a_reason(requirement):
    assert name(requirement) in map(name, LOCK)
    reasons = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert re.search(rf"^- `{re.escape(name(requirement))}`: \w+", reasons, re.MULTILINE)
