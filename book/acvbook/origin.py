"""What the numbers of a run come from, and whether all of it is still as it was.

An origin has the checksums of the code that ran, of each module of acvlib and acvbook that it
imported and of each data file that it looked for (None where there was none, so that a stand-in
took its place), the versions of the packages that it imported, the commit and the day. A run is
*current* while these hold. Prose, comments, docstrings, the wording of errors and warnings, the
number of a version, and modules that were never imported are no part of it.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import json
import os
import re
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from .claims import ROOT
from .datasets import registry
from .whole import write

SEEN = "seen.json"
_FOLDERS = {"acvlib": ROOT / "acvlib", "acvbook": ROOT / "book" / "acvbook"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def fingerprint(code: str) -> str:
    """A checksum of what Python code does: of its syntax tree without docstrings, the texts that it
    raises or warns with, and the number of its version.
    """
    tree = ast.parse(re.sub(r"^__version__ = .*", "", code, flags=re.M))
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        call = node.exc if isinstance(node, ast.Raise) else node
        warns = getattr(getattr(node, "func", None), "attr", "") == "warn"
        if isinstance(call, ast.Call) and (call is not node or warns):
            call.args = call.args[1:]
    return _short(ast.unparse(tree))


def _short(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def code_of(path: Path | str) -> str:
    """The fingerprint of a module or script, or of a notebook in percent format, cell by cell."""
    cells = re.split(r"^# %%.*$", Path(path).read_text("utf-8"), flags=re.M)
    return _short("".join(fingerprint(cell) for cell in cells if ast.parse(cell).body))


def _file_of(module):
    """The file of a module of acvlib or acvbook."""
    package, *rest = module.split(".")
    path = _FOLDERS[package].joinpath(*rest)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def seen() -> dict:
    """What only the process that computed knows: the modules that it imported, the packages with
    their versions, the data files with their checksums.
    """
    distributions = packages_distributions()
    tops = {name.partition(".")[0] for name in sys.modules}
    packages = {_normal(name) for top in tops for name in distributions.get(top, [])}
    pins = locked()
    return {
        "modules": sorted(name for name in sys.modules if name.partition(".")[0] in _FOLDERS),
        "packages": {name: pins[name] for name in sorted(packages) if name in pins},
        "data": registry.looked_for,
    }


def keep_seen() -> None:
    """Write what this process, a notebook's kernel, has seen into its output folder."""
    write(Path(os.environ["ACVLIB_OUTPUT"], SEEN), json.dumps(seen()))


def locked() -> dict[str, str]:
    """{package: version} of requirements.lock."""
    pins = re.findall(r"^(\S+)==(\S+)", (ROOT / "requirements.lock").read_text("utf-8"), re.M)
    return {_normal(name): version for name, version in pins}


def _normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def origin(source: Path | str, seen: dict, started: float, commit: str) -> dict:
    """The origin of a run of a script or notebook that `started` (seconds of the epoch) and whose
    process has `seen` this. Files that were edited since are none that it can vouch for.
    """
    files = {name: _file_of(name) for name in seen["modules"]}
    prints = {name: _since(path, started) for name, path in files.items() if path.is_file()}
    return {
        "commit": commit,
        "day": datetime.date.fromtimestamp(started).isoformat(),
        "code": _since(Path(source), started),
        **seen,
        "modules": prints,
    }


def _since(path, started):
    return "edited while it ran" if path.stat().st_mtime > started else code_of(path)


def changes(run: dict, source: Path | str, here: bool = False) -> list[str]:
    """What is not as it was when a run of a script or notebook was made, in words; empty for a
    current run. Data files are those that are `here`, on this machine, or those of the registry.
    """
    if "code" not in run:
        return ["no record of what it ran"]
    pins = locked()
    files = {name: _file_of(name) for name in run["modules"]}
    present = {name: code_of(path) for name, path in files.items() if path.is_file()}
    return [
        *(["its code"] if run["code"] != code_of(source) else []),
        *(name for name, print in run["modules"].items() if present.get(name) != print),
        *(name for name, pin in run["packages"].items() if pins.get(name) != pin),
        *(file for file, sha256 in run["data"].items() if not _holds(file, sha256, here)),
    ]


def _holds(file, sha256, here):
    name, _, file = file.partition("/")
    if here:
        return registry.sha256_here(name, file) == sha256
    return sha256 in (None, registry.get(name).files.get(file))


def run_of(name: str, folder: Path | str) -> dict:
    """What a folder knows of a run: its cost, its files, its origin; empty if nothing."""
    path = Path(folder, "runs", f"{name}.json")
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def in_words(run: dict, since: list[str]) -> str:
    """When and at which commit a run was, and whether it is current or what changed `since`."""
    if "commit" not in run:
        return ""
    named = ", ".join([*since[:3], *([f"{len(since) - 3} more"] if len(since) > 3 else [])])
    return f"{run['day']}, commit `{run['commit']}`; " + (
        f"changed since: {named}" if since else "current"
    )


def deliver(staging: Path, folder: Path, name: str, run: dict) -> None:
    """Move every staged file of a run into its place, and remove what only an earlier run made.

    The record of the run goes last: stopped before, there is none, and the notebook runs again.
    """
    record = folder / "runs" / f"{name}.json"
    new = [str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file()]
    old = run_of(name, folder).get("files", [])
    record.unlink(missing_ok=True)
    for file in new:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (staging / file).replace(folder / file)
    for file in set(old).difference(new):
        (folder / file).unlink(missing_ok=True)
    write(record, json.dumps(run | {"files": sorted(new)}, indent=1))
