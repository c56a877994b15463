"""run_notebook.py NOTEBOOK.py FOLDER: execute a notebook at the scale FOLDER is named after.

FOLDER receives NAME.ipynb, figures/ and ledger/NAME.json once the whole notebook has run,
and nothing before.
"""

import os
import re
import sys
import tempfile
import time
from pathlib import Path

import jupytext
import papermill
from papermill.exceptions import PapermillExecutionError

ROOT = Path(__file__).resolve().parent.parent
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Where this machine keeps the project, and the kernel its cells: neither belongs into a published
# notebook.
MACHINE = re.compile(re.escape(f"{ROOT}/") + r"|/tmp/ipykernel_\d+/")


def execute(notebook, staging, scale):
    """Run ``notebook`` with its figures and records going to ``staging``;
    returns the executed notebook.
    """
    os.environ["ACVLIB_OUTPUT"] = staging
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


def move(staging, folder):
    """Move every staged file into its place, each atomically."""
    for path in [path for path in staging.rglob("*") if path.is_file()]:
        target = folder / path.relative_to(staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


def explain(name, error):
    """The failing cell and its traceback, in plain text."""
    trace = ANSI.sub("", "\n".join(error.traceback))
    return f"{name}: failed in cell {error.exec_count}\n\n{error.source}\n\n{trace}"


def main(notebook, folder):
    name, folder, started = Path(notebook).stem, Path(folder).resolve(), time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{name}: started at {folder.name} scale", flush=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder) as staging:
        try:
            executed = execute(notebook, staging, folder.name)
        except PapermillExecutionError as error:
            sys.exit(explain(name, error))
        move(Path(staging), folder)
        # The notebook goes last: where it is, its figures and records are.
        Path(staging, f"{name}.ipynb").write_text(tidy(executed), "utf-8")
        move(Path(staging), folder)
    print(f"{name}: finished in {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
