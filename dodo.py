"""The task graph: notebooks → executed notebooks → ledger → book. Run it through make.

`scale=quick|paper` runs the notebooks; `scale=published` builds the book from book/published/,
running nothing. Imports stay light: when nothing changed, this file is all that runs.

doit keeps the order of the tasks, and nothing on disk. What is finished says a stamp a task in
build/.made/: the checksum of all that the task reads. It is removed before the task begins and
written after it ended, so that a build may be stopped at any point.
"""

import hashlib
import json
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from acvbook.orphan import end_with_parent
from acvbook.whole import lock, recover, write
from doit import get_var
from doit.reporter import ErrorOnlyReporter

SCALE = get_var("scale", "quick")
OUTPUT = Path("book/published") if SCALE == "published" else Path("build", SCALE)
NOTEBOOKS = [] if SCALE == "published" else sorted(Path("notebooks").glob("*.py"))
EXECUTED = [OUTPUT / f"{notebook.stem}.ipynb" for notebook in NOTEBOOKS]
NOT_PROSE = {"_build", "published", "acvbook", "acvbook.egg-info"}
MATHJAX = Path("build/packages/mathjax/node-main.js")
AXE = Path("build/packages/axe-core/axe.min.js")
HTML = Path("book/_build/html")
BENCHMARKS = Path("book/published/benchmarks.json")
FOLD_SIZES = "fold_sizes.json"
PAGE_TOOLS = ("assemble.py", "chapters.py", "scoreboard.py", "build_html.py", "finish_html.py")
PAGE_TOOLS += ("prerender.py", "typeset.js", "api_pages.py", "link_names.py")
PAGE_TOOLS += ("benchmarks_page.py", "fold_sizes_page.py")
STAMPS = Path("build/.made")


class FailuresOnly(ErrorOnlyReporter):
    """Reports the task that failed, and not all those that wait for it."""

    def add_failure(self, task, fail_info):
        if fail_info.get_name() != "UnmetDependency":
            super().add_failure(task, fail_info)


DOIT_CONFIG = {
    "backend": "sqlite3",
    "dep_file": ":memory:",
    "continue": True,
    "num_process": 2,
    "par_type": "thread",
    "reporter": FailuresOnly,
    "verbosity": 2,
}


def prepare():
    """One build at a time, in a folder that can be written, after what a stopped one left."""
    try:
        Path("build").mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir="build").close()
    except OSError as error:
        sys.exit(f"{Path('build').resolve()}: {error.strerror}; the book is built in this folder")
    descriptor = lock(".", "another make")  # until this process ends
    for folder in (Path("book/published"), HTML, MATHJAX.parent, AXE.parent):
        recover(folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if "MAKELEVEL" in os.environ:
        end_with_parent()
    return descriptor


LOCK = prepare()


def python(*arguments):
    return [sys.executable, *map(str, arguments)]


def library():
    """Code that notebooks and pages are made of."""
    files = [*Path("acvlib").rglob("*"), *Path("book/acvbook").rglob("*")]
    return [path for path in files if path.suffix in (".py", ".toml")]


def files_in(folder):
    """Files below a folder but for hidden ones, which are unfinished or bookkeeping."""
    paths = [path for path in Path(folder).rglob("*.*") if path.is_file()]
    return [path for path in paths if not any(part.startswith(".") for part in path.parts)]


def data_state():
    """Name, size and time of every data file,
    so that notebooks run again when real data arrive or change.
    """
    state = {}
    for root in (os.environ.get("ACVLIB_DATA"), "data/cache"):
        for path in files_in_data(root):
            stat = path.stat()
            state[str(path.relative_to(root))] = [stat.st_size, stat.st_mtime_ns]
    return state


def files_in_data(root):
    paths = sorted(Path(root).rglob("*")) if root else []
    return [path for path in paths if path.is_file() and not path.name.startswith(".")]


def checksum(paths, *values):
    """One sha256 of the content of files, and of values that JSON has."""
    whole = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for path in sorted(map(Path, paths)):
        content = path.read_bytes() if path.is_file() else b"missing"
        whole.update(f"{path} {hashlib.sha256(content).hexdigest()}\n".encode())
    return whole.hexdigest()


def step(name, actions, state, target):
    """A task that runs unless its stamp says that it finished in the present `state()`."""
    stamp, began = STAMPS / name, []

    def is_finished():
        return stamp.is_file() and stamp.read_text() == state()

    def begin():
        stamp.unlink(missing_ok=True)
        began.append(state())

    def end():
        if state() == began.pop():  # nothing was edited meanwhile
            write(stamp, state())

    return {
        "actions": [begin, *actions, end],
        "targets": [str(target)],
        "uptodate": [is_finished],
    }


def task_execute():
    """Execute a notebook."""
    for notebook, executed in zip(NOTEBOOKS, EXECUTED, strict=True):
        tools = ["requirements.lock", "tools/run_notebook.py"]

        def state(notebook=notebook, tools=tools):
            return checksum([notebook, *library(), *tools], data_state())

        run = python("tools/run_notebook.py", notebook, OUTPUT)
        name = f"{SCALE}/{notebook.stem}"
        yield {"name": name, **step(name, [run], state, executed)}


def task_ledger():
    """Merge what the notebooks recorded, and judge it by book/claims/."""

    def state():
        code = [*Path("book/claims").glob("*.toml"), *Path("book/acvbook").glob("*.py")]
        return checksum([*EXECUTED, *files_in(OUTPUT / "ledger"), *code, "tools/judge.py"])

    if NOTEBOOKS:
        merge = python("tools/judge.py", "merge", OUTPUT)
        made = step(f"{SCALE}/ledger", [merge], state, OUTPUT / "ledger.json")
        yield {"name": SCALE, "task_dep": ["execute"], **made}


def task_fold_sizes():
    """Measure how errors grow with the size of the folds, for the page with the slider."""
    if NOTEBOOKS:
        tool = "tools/fold_sizes.py"
        state = partial(checksum, [*library(), tool])
        made = step(f"{SCALE}/fold_sizes", [python(tool, OUTPUT)], state, OUTPUT / FOLD_SIZES)
        yield {"name": SCALE, **made}


def task_publish():
    """Keep executed notebooks, figures and ledger of this run in book/published/."""
    return {
        "actions": [python("tools/publish.py", OUTPUT, "book/published")],
        "task_dep": ["execute", "ledger", "fold_sizes"],
    }


def task_package():
    """Put packages of npm in place: one typesets the formulas, one checks the pages."""
    for target in (MATHJAX, AXE):
        name = target.parent.name
        fetch = python("tools/npm_package.py", name, target.parent)
        state = partial(checksum, ["tools/npm_package.py"])
        yield {"name": name, **step(name, [fetch], state, target)}


def task_html():
    """Assemble the book's source in build/book/ and build it."""

    def state():
        pages = [path for path in files_in("book") if not NOT_PROSE & set(path.parts)]
        made_of = [*(f"tools/{name}" for name in PAGE_TOOLS), MATHJAX, BENCHMARKS]
        prose = Path("notebooks").glob("*.py")
        return checksum([*pages, *prose, *library(), *files_in(OUTPUT), *made_of], SCALE)

    actions = [
        python("tools/assemble.py", OUTPUT, "build/book"),
        python("tools/build_html.py", "build/book", HTML, MATHJAX.parent),
    ]
    made = step("html", actions, state, HTML / "index.html")
    return {"task_dep": ["execute", "ledger", "fold_sizes", "package"], **made}
