"""Running a notebook: all or nothing arrives, failures show their cell, no trace of the machine."""

import json
import subprocess
import sys

import pytest
from places import ROOT

KERNEL = "{display_name: Python 3, language: python, name: python3}"
HEADER = f"# ---\n# jupyter:\n#   kernelspec: {KERNEL}\n# ---\n"
CELLS = """
# %% tags=["parameters", "remove-cell"]
scale = "none"

# %%
import os, pathlib
folder = pathlib.Path(os.environ["ACVLIB_OUTPUT"], "figures")
folder.mkdir()
(folder / "a.svg").write_text(scale)

# %%
"""


@pytest.fixture
def run(tmp_path):
    """Runs a notebook that ends in the given cell; returns the finished process."""

    def run(last_cell):
        notebook = tmp_path / "demo.py"
        notebook.write_text(HEADER + CELLS + last_cell, "utf-8")
        command = [sys.executable, "tools/run_notebook.py", notebook, tmp_path / "quick"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    return run


def test_finished_notebook_arrives_whole_and_without_traces(run, tmp_path):
    process = run("os.getcwd() + '/acvlib'")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "quick" / "figures" / "a.svg").read_text("utf-8") == "quick"
    text = (tmp_path / "quick" / "demo.ipynb").read_text("utf-8")
    assert str(ROOT) not in text
    assert "start_time" not in text
    hidden = [cell["metadata"].get("tags", []) for cell in json.loads(text)["cells"]][1]
    assert hidden == ["remove-cell", "injected-parameters"]
    assert process.stdout.splitlines()[0] == "demo: started at quick scale"
    assert len(process.stdout.splitlines()) == 2


def test_failed_notebook_shows_its_cell_and_leaves_nothing(run, tmp_path):
    process = run("ratio = 1 / 0")
    assert process.returncode == 1
    assert "ratio = 1 / 0" in process.stderr
    assert "ZeroDivisionError: division by zero" in process.stderr
    assert "\x1b" not in process.stderr
    assert not (tmp_path / "quick" / "demo.ipynb").exists()
    assert not (tmp_path / "quick" / "figures").exists()
