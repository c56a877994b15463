"""run_notebook.py NOTEBOOK.py FOLDER: execute a notebook at the scale FOLDER is named after.

FOLDER receives NAME.ipynb, figures/, ledger/NAME.json and runs/NAME.json once the whole notebook
has run, and nothing before. The last says what the run took, which files it made, so that the next
one removes what it no longer makes, and its origin (`acvbook.origin`).
"""

import json
import os
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import jupytext
import papermill
from acvbook import ledger, origin
from nbformat.v4 import new_code_cell
from papermill.exceptions import PapermillExecutionError

ROOT = Path(__file__).resolve().parent.parent
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Where this machine keeps the project, and the kernel its cells: neither belongs into a published
# notebook.
MACHINE = re.compile(re.escape(f"{ROOT}/") + r"|/tmp/ipykernel_\d+/")
LAST_CELL = "from acvbook import origin\norigin.keep_seen()"


def execute(notebook, staging, scale):
    """Run ``notebook`` with its figures and records going to ``staging``;
    returns the executed notebook.

    BLAS and torch have one thread, as in all published times: in small products threads wait longer
    than they work, and two chapters run at once.
    """
    os.environ |= {"ACVLIB_OUTPUT": staging, "OMP_NUM_THREADS": "1"}
    cells = jupytext.read(notebook)
    cells.cells.append(new_code_cell(LAST_CELL))
    executed = papermill.execute_notebook(
        cells,
        None,
        parameters={"scale": scale},
        kernel_name="python3",
        cwd=str(ROOT),
        progress_bar=False,
        extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
    )
    executed.cells.pop()
    return executed


def tidy(executed):
    """Remove what differs from run to run and from machine to machine: times, random ids, paths."""
    executed.metadata.pop("papermill")
    for number, cell in enumerate(executed.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {"tags": tags} if (tags := shown(cell.metadata.get("tags", []))) else {}
    return MACHINE.sub("", jupytext.writes(executed, fmt="ipynb"))


def shown(tags):
    """The cell that papermill adds is hidden like the one that it overrides."""
    return ["remove-cell", *tags] if "injected-parameters" in tags else tags


def explain(name, error):
    """The failing cell and its traceback, in plain text."""
    trace = ANSI.sub("", "\n".join(error.traceback))
    return f"{name}: failed in cell {error.exec_count}\n\n{error.source}\n\n{trace}"


def cost(started):
    """Minutes since `started`, and the most memory of the kernel in gigabytes."""
    minutes = (time.time() - started) / 60.0
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"minutes": round(minutes, 1), "gigabytes": round(kilobytes / 1e6, 1)}


def origin_of(notebook, staging, started, commit):
    """The origin of the run that has just ended, by what its kernel has left."""
    path = staging / origin.SEEN
    seen = json.loads(path.read_text("utf-8"))
    path.unlink()
    return origin.origin(notebook, seen, started, commit)


def main(notebook, folder):
    name, folder = Path(notebook).stem, Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{name}: started at {folder.name} scale", flush=True)
    started, commit = time.time(), ledger.commit()
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}_", dir=folder) as staging:
            executed = execute(notebook, staging, folder.name)
            Path(staging, f"{name}.ipynb").write_text(tidy(executed), "utf-8")
            run = cost(started) | origin_of(notebook, Path(staging), started, commit)
            origin.deliver(Path(staging), folder, name, run)
    except PapermillExecutionError as error:
        sys.exit(explain(name, error))
    except OSError as error:
        sys.exit(f"{name}: {error}")
    print(f"{name}: finished in {time.time() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
