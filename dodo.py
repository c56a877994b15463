"""The task graph: notebooks → executed notebooks → ledger → book. Run it through make.

`scale=quick|paper` runs the notebooks; `scale=published` builds the book from book/published/,
running nothing. A notebook is finished while all that its run read is as it was (`acvbook.origin`);
of the other tasks doit keeps what they read, in build/.doit.db. A build that was stopped is run
again.
"""

import sys
from functools import partial
from pathlib import Path

from acvbook import origin
from acvbook.datasets import registry
from doit import get_var

SCALE = get_var("scale", "quick")
PUBLISHED = Path("book/published")
OUTPUT = PUBLISHED if SCALE == "published" else Path("build", SCALE)
NOTEBOOKS = [] if SCALE == "published" else sorted(Path("notebooks").glob("*.py"))
BUILT = {"_build", "acvbook.egg-info", "__pycache__"}
HTML = Path("book/_build/html")
DOIT_CONFIG = {
    "backend": "sqlite3",
    "dep_file": "build/.doit.db",
    "continue": True,
    "num_process": 2,
    "par_type": "thread",
    "reporter": "error-only",
    "verbosity": 2,
}

try:
    registry.folders("any")  # data where the variable says
    Path("build").mkdir(exist_ok=True)
except OSError as error:
    sys.exit(str(error))


def python(*arguments):
    return [sys.executable, *map(str, arguments)]


def files_in(*folders):
    """The files below some folders, but for what is built."""
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("*.*"))]
    return [path for path in paths if path.is_file() and not BUILT & set(path.parts)]


def records():
    """What runs of notebooks leave, each written anew when one ends."""
    return [OUTPUT / "runs" / f"{notebook.stem}.json" for notebook in NOTEBOOKS]


def is_current(notebook, folders):
    """Whether one of some folders has what a run of a notebook would make again."""
    known = [(folder, origin.run_of(notebook.stem, folder)) for folder in folders]
    return any(
        all((folder / file).is_file() for file in record.get("files", []))
        and not origin.changes(record, notebook, here=True)
        for folder, record in known
    )


def task_execute():
    """Execute a notebook, the last ones first: they take long, and both cores end together. What is
    current in book/published/ is not run to be published.
    """
    folders = [OUTPUT, PUBLISHED] if "publish" in sys.argv else [OUTPUT]
    for notebook in reversed(NOTEBOOKS):
        yield {
            "name": f"{SCALE}/{notebook.stem}",
            "actions": [python("tools/run_notebook.py", notebook, OUTPUT)],
            "uptodate": [partial(is_current, notebook, folders)],
        }


def task_ledger():
    """Merge what the notebooks recorded, and judge it by book/claims/."""
    if NOTEBOOKS:
        yield {
            "name": SCALE,
            "actions": [python("tools/judge.py", "merge", OUTPUT)],
            "task_dep": ["execute"],
            "file_dep": [*records(), *files_in("book/claims", "book/acvbook", "tools")],
            "targets": [OUTPUT / "ledger.json"],
        }


def task_publish():
    """Keep in book/published/ what each run made, as soon as it has ended."""
    for notebook in NOTEBOOKS:
        publish = python("tools/publish.py", notebook.stem, OUTPUT, PUBLISHED)
        executed = f"execute:{SCALE}/{notebook.stem}"
        yield {"name": notebook.stem, "actions": [publish], "task_dep": [executed]}


def task_html():
    """Assemble the book's source in build/book/ and build it."""
    sources = files_in("book", "tools", "notebooks", "acvlib")
    sources += [*records(), OUTPUT / "ledger.json"]
    return {
        "actions": [
            python("tools/assemble.py", OUTPUT, "build/book"),
            python("tools/build_html.py", "build/book", HTML),
        ],
        "task_dep": ["execute", "ledger"],
        "file_dep": sources,
        "targets": [HTML / "index.html"],
    }
