"""The task graph: notebooks → executed notebooks → ledger → book. Run it through make.

`scale=quick|paper` runs the notebooks; `scale=published` builds the book from book/published/,
running nothing. Imports stay light: when nothing changed, this file is all that runs.

doit keeps the order of the tasks, and nothing on disk. A notebook is finished while all that its
run read is as it was (`acvbook.origin`), any other task while the checksum of all that it reads is
the one in its stamp in build/.made/. That is removed before the task begins and written after it
ended, so that a build may be stopped at any point.
"""

import hashlib
import json
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from acvbook import origin
from acvbook.datasets import registry
from acvbook.orphan import end_with_parent
from acvbook.whole import lock, recover, write
from doit import get_var
from doit.reporter import ErrorOnlyReporter

SCALE = get_var("scale", "quick")
PUBLISHED = Path("book/published")
PUBLISHING = "publish" in sys.argv
OUTPUT = PUBLISHED if SCALE == "published" else Path("build", SCALE)
NOTEBOOKS = [] if SCALE == "published" else sorted(Path("notebooks").glob("*.py"))
EXECUTED = [OUTPUT / f"{notebook.stem}.ipynb" for notebook in NOTEBOOKS]
NOT_PROSE = {"_build", "published", "acvbook", "acvbook.egg-info"}
MATHJAX = Path("build/packages/mathjax/node-main.js")
AXE = Path("build/packages/axe-core/axe.min.js")
HTML = Path("book/_build/html")
BENCHMARKS = PUBLISHED / "benchmarks.json"
FOLD_SIZES = Path("tools/fold_sizes.py")
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
    """One build at a time, in a folder that can be written, with data where the variable says,
    after what a stopped build left.
    """
    try:
        registry.folders("any")
        Path("build").mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir="build").close()
    except NotADirectoryError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{Path('build').resolve()}: {error.strerror}; the book is built in this folder")
    descriptor = lock(".", "another make")  # until this process ends
    for folder in (HTML, MATHJAX.parent, AXE.parent):
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


def is_current(source, folders):
    """Whether one of some folders has what a run of a notebook or script would make again."""
    runs = [(folder, origin.run_of(source.stem, folder)) for folder in folders]
    return any(
        all((folder / file).is_file() for file in run.get("files", []))
        and not origin.changes(run, source, here=True)
        for folder, run in runs
    )


def run(tool, source, *arguments):
    """A task whose numbers are kept; it publishes only what is not current in book/published/."""
    folders = [OUTPUT, PUBLISHED] if PUBLISHING else [OUTPUT]
    return {
        "name": f"{SCALE}/{source.stem}",
        "actions": [python(tool, *arguments, OUTPUT)],
        "uptodate": [partial(is_current, source, folders)],
    }


def task_execute():
    """Execute a notebook, the last ones first: they take long, and both cores end together."""
    for notebook in reversed(NOTEBOOKS):
        yield run("tools/run_notebook.py", notebook, notebook)


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
        yield run(FOLD_SIZES, FOLD_SIZES)


def task_publish():
    """Keep in book/published/ what each run made, as soon as it has ended."""
    sources = [("execute", path) for path in NOTEBOOKS]
    for kind, source in [*sources, ("fold_sizes", FOLD_SIZES)] if sources else []:
        publish = python("tools/publish.py", source.stem, OUTPUT, PUBLISHED)
        task = f"{kind}:{SCALE}/{source.stem}"
        yield {"name": source.stem, "actions": [publish], "task_dep": [task]}


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
