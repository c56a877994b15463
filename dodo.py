"""The task graph: notebooks → executed notebooks → ledger → book. Run it through make.

`scale=quick|paper` runs the notebooks; `scale=published` builds the book from book/published/,
running nothing. Imports stay light: when nothing changed, this file is all that runs.
"""

import os
import signal
import sys
from pathlib import Path

from doit import get_var
from doit.reporter import ErrorOnlyReporter
from doit.tools import config_changed

SCALE = get_var("scale", "quick")
OUTPUT = Path("book/published") if SCALE == "published" else Path("build", SCALE)
NOTEBOOKS = [] if SCALE == "published" else sorted(Path("notebooks").glob("*.py"))
EXECUTED = [str(OUTPUT / f"{notebook.stem}.ipynb") for notebook in NOTEBOOKS]
LIBRARY = [
    str(path)
    for kind in ("py", "toml")
    for folder in ("acvlib", "book/acvbook")
    for path in sorted(Path(folder).rglob(f"*.{kind}"))
]
NOT_PROSE = {"_build", "published", "acvbook", "acvbook.egg-info"}
PAGES = [
    str(path) for path in sorted(Path("book").glob("**/*.*")) if not NOT_PROSE & set(path.parts)
]
MATHJAX = "build/extra/mathjax/tex-svg-full.js"
INDEX = "book/_build/html/index.html"


class FailuresOnly(ErrorOnlyReporter):
    """Reports the task that failed, and not all those that wait for it."""

    def add_failure(self, task, fail_info):
        if fail_info.get_name() != "UnmetDependency":
            super().add_failure(task, fail_info)


Path("build").mkdir(exist_ok=True)
DOIT_CONFIG = {
    "dep_file": "build/.doit.db",
    "continue": True,
    "num_process": 2,
    "par_type": "thread",
    "reporter": FailuresOnly,
    "verbosity": 2,
}
# A terminated run saves what it finished, as one stopped by Ctrl-C does.
signal.signal(signal.SIGTERM, signal.default_int_handler)


def python(*arguments):
    return [sys.executable, *map(str, arguments)]


def data_state():
    """Name, size and time of every data file,
    so that notebooks run again when real data arrive or change.
    """
    roots = [Path(root) for root in (os.environ.get("ACVLIB_DATA"), "data/cache") if root]
    files = [
        (root, path, path.stat())
        for root in roots
        for path in sorted(root.rglob("*"))
        if path.is_file()
    ]
    return {
        str(path.relative_to(root)): [stat.st_size, stat.st_mtime_ns] for root, path, stat in files
    }


def task_execute():
    """Execute a notebook."""
    for notebook, executed in zip(NOTEBOOKS, EXECUTED, strict=True):
        yield {
            "name": f"{SCALE}/{notebook.stem}",
            "actions": [python("tools/run_notebook.py", notebook, OUTPUT)],
            "file_dep": [str(notebook), *LIBRARY, "requirements.lock", "tools/run_notebook.py"],
            "targets": [executed],
            "uptodate": [config_changed(data_state())],
        }


def task_ledger():
    """Merge what the notebooks recorded, and judge it by book/claims.toml."""
    if NOTEBOOKS:
        yield {
            "name": SCALE,
            "actions": [python("tools/judge.py", "merge", OUTPUT)],
            "file_dep": [*EXECUTED, "book/claims.toml", "book/acvbook/ledger.py", "tools/judge.py"],
            "targets": [str(OUTPUT / "ledger.json")],
        }


def task_publish():
    """Keep executed notebooks, figures and ledger of this run in book/published/."""
    return {
        "actions": [python("tools/publish.py", OUTPUT, "book/published")],
        "task_dep": ["execute", "ledger"],
    }


def task_mathjax():
    """Put MathJax in place, so that the book reads offline."""
    return {
        "actions": [python("tools/mathjax.py", Path(MATHJAX).parent)],
        "file_dep": ["tools/mathjax.py"],
        "targets": [MATHJAX],
    }


def task_outputs():
    """What the book is made of; known only after the notebooks ran."""

    def outputs():
        return {"file_dep": [str(path) for path in sorted(OUTPUT.glob("**/*.*")) if path.is_file()]}

    return {"actions": [outputs], "task_dep": ["execute", "ledger"]}


def task_html():
    """Assemble the book's source in build/book/ and build it."""
    build = [
        "jupyter-book",
        "build",
        "build/book",
        "--path-output",
        "book",
        "-W",
        "--keep-going",
        "-n",
        "--all",
        "-q",
    ]
    return {
        "actions": [
            python("tools/assemble.py", OUTPUT, "build/book"),
            [str(Path(sys.executable).parent / build[0]), *build[1:]],
        ],
        "file_dep": [*PAGES, *LIBRARY, MATHJAX, "tools/assemble.py", "tools/scoreboard.py"],
        "calc_dep": ["outputs"],
        "targets": [INDEX],
        "uptodate": [config_changed(SCALE)],
    }
