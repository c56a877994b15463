"""run_notebook.py NOTEBOOK.py FOLDER: execute a notebook at the scale FOLDER is named after.

FOLDER receives NAME.ipynb, figures/, ledger/NAME.json and runs/NAME.json once the whole notebook
has run, and nothing before. The last says what the run took, in minutes of a core, and its files.
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
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Where this machine keeps the project, and the kernel its cells: not for a published notebook.
MACHINE = re.compile(re.escape(f"{ROOT}/") + r"|/tmp/ipykernel_\d+/")
LAST_CELL = "from acvbook import origin\norigin.keep_seen()"


def execute(notebook, staging, scale):
    """The executed notebook, without times, ids and paths; on one thread, as two run at once."""
    os.environ |= {"ACVLIB_OUTPUT": staging, "OMP_NUM_THREADS": "1"}
    source = jupytext.read(notebook)
    source.cells.append(new_code_cell(LAST_CELL))
    settings = {"parameters": {"scale": scale}, "kernel_name": "python3", "cwd": str(ROOT)}
    settings |= {"progress_bar": False, "extra_arguments": ["--IPKernelApp.log_level=CRITICAL"]}
    ip = f"{tempfile.gettempdir()}/acv{os.getpid()}"  # two kernels may choose the same port
    settings["config"] = Config({"KernelManager": {"transport": "ipc", "ip": ip}})
    executed = papermill.execute_notebook(source, None, **settings)
    executed.cells.pop()
    executed.metadata.pop("papermill")
    for number, cell in enumerate(executed.cells):
        tags = cell.metadata.get("tags", [])
        tags = ["remove-cell", *tags] if "injected-parameters" in tags else tags
        cell.id = f"cell-{number}"
        cell.metadata = {"tags": tags} if tags else {}
    return MACHINE.sub("", jupytext.writes(executed, fmt="ipynb"))


def run(notebook, folder):
    """Execute, and deliver all files of the run."""
    started, commit = time.time(), ledger.commit()
    with tempfile.TemporaryDirectory(prefix=f".{notebook.stem}_", dir=folder) as name:
        staging = Path(name)
        text = execute(notebook, name, folder.name)
        (staging / f"{notebook.stem}.ipynb").write_text(text, "utf-8")
        seen = json.loads((staging / origin.SEEN).read_text("utf-8"))
        (staging / origin.SEEN).unlink()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cost = {"minutes": round(sum(used[:2]) / 60, 1), "gigabytes": round(used[2] / 1e6, 1)}
        record = origin.origin(notebook, seen, started, commit) | cost
        origin.deliver(staging, folder, notebook.stem, record)


def main(notebook, folder):
    notebook, folder = Path(notebook), Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{notebook.stem}: started at {folder.name} scale", flush=True)
    started = time.time()
    try:
        run(notebook, folder)
    except PapermillExecutionError as error:
        trace = ANSI.sub("", "\n".join([error.source, "", *error.traceback]))
        sys.exit(f"{notebook.stem}: failed in cell {error.exec_count}\n\n{trace}")
    print(f"{notebook.stem}: finished in {time.time() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
