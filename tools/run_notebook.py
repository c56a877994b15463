"""run_notebook.py NOTEBOOK.py FOLDER: execute a notebook at the scale FOLDER is named after.

FOLDER receives NAME.ipynb, figures/, ledger/NAME.json and runs/NAME.json (minutes and memory that
it took) once the whole notebook has run, and nothing before. FOLDER/.NAME/ lists what it received,
so that the next run removes what it no longer makes.
"""

import json
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import jupytext
import papermill
from acvbook.orphan import end_with_parent
from acvbook.whole import locked, write
from papermill.exceptions import PapermillExecutionError

ROOT = Path(__file__).resolve().parent.parent
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Where this machine keeps the project, and the kernel its cells: neither belongs into a published
# notebook.
MACHINE = re.compile(re.escape(f"{ROOT}/") + r"|/tmp/ipykernel_\d+/")


def execute(notebook, staging, scale):
    """Run ``notebook`` with its figures and records going to ``staging``;
    returns the executed notebook.

    BLAS and torch have one thread, as in all published times: in small products threads wait longer
    than they work, and two chapters run at once.
    """
    os.environ |= {"ACVLIB_OUTPUT": staging, "OMP_NUM_THREADS": "1"}
    return papermill.execute_notebook(
        jupytext.read(notebook),
        None,
        parameters={"scale": scale},
        kernel_name="python3",
        cwd=str(ROOT),
        progress_bar=False,
        extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
    )


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


def deliver(staging, folder, listing):
    """Move every staged file into its place, and remove what only an earlier run made.

    Stopped anywhere, ``listing`` names at least the files that are there. The notebook goes last.
    """
    new = [str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file()]
    old = json.loads(listing.read_text("utf-8")) if listing.exists() else []
    write(listing, json.dumps(sorted({*old, *new})))
    for name in sorted(new, key=lambda name: name.endswith(".ipynb")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(folder / name)
    for name in set(old).difference(new):
        (folder / name).unlink(missing_ok=True)
    write(listing, json.dumps(sorted(new)))


def explain(name, error):
    """The failing cell and its traceback, in plain text."""
    trace = ANSI.sub("", "\n".join(error.traceback))
    return f"{name}: failed in cell {error.exec_count}\n\n{error.source}\n\n{trace}"


def cost(started):
    """Minutes since `started`, and the most memory of the kernel in gigabytes."""
    minutes = (time.perf_counter() - started) / 60.0
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"minutes": round(minutes, 1), "gigabytes": round(kilobytes / 1e6, 1)}


def main(notebook, folder):
    name, folder, started = Path(notebook).stem, Path(folder).resolve(), time.perf_counter()
    private = folder / f".{name}"
    private.mkdir(parents=True, exist_ok=True)
    with locked(private, f"another run of {name}"):
        for path in private.glob("run_*"):
            shutil.rmtree(path, ignore_errors=True)  # of a run that was killed
        print(f"{name}: started at {folder.name} scale", flush=True)
        with tempfile.TemporaryDirectory(prefix="run_", dir=private) as staging:
            run(name, notebook, folder, Path(staging), private / "files.json")
    print(f"{name}: finished in {time.perf_counter() - started:.1f} s", flush=True)


def run(name, notebook, folder, staging, listing):
    end_with_parent(partial(shutil.rmtree, staging, ignore_errors=True))
    started = time.perf_counter()
    try:
        executed = execute(notebook, str(staging), folder.name)
        (staging / f"{name}.ipynb").write_text(tidy(executed), "utf-8")
        (staging / "runs").mkdir()
        (staging / "runs" / f"{name}.json").write_text(json.dumps(cost(started)), "utf-8")
        deliver(staging, folder, listing)
    except PapermillExecutionError as error:
        sys.exit(explain(name, error))
    except OSError as error:
        sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
