"""make book, in a folder with spaces and umlauts: the next make shows what the sources say.

Running a notebook: all or nothing arrives, failures show their cell, no trace of the machine.
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from places import ROOT
from small_book import SmallBook, wait_for


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    book = SmallBook(tmp_path_factory.mktemp("Bücher und mehr") / "Straße").create()
    code, output = book.make()
    assert code == 0, output
    assert sorted(book.executions()) == ["one", "two"]
    assert shows(book, 1)
    return book


@pytest.fixture
def book(built, tmp_path):
    root = tmp_path / "ein Buch für uns"
    shutil.copytree(built.root, root, symlinks=True)
    return SmallBook(root)


def shows(book, value):
    """Whether the finished book, and all that it is made of, is of the sources with `value`."""
    figures = sorted(path.name for path in (book.root / "build/quick/figures").iterdir())
    return (
        figures == [f"one-{value}.svg", f"two-{value}.svg"]
        and all(f"{figure} {value} {value}" in book.page for figure in figures)
        and book.page.count(f"|  | {value} |") == 2
        and (book.root / "book/_build/html/end.html").read_text().count("whole") == 1
    )


def test_nothing_is_done_twice_and_a_reverted_source_is_built_again(book):
    before = len(book.executions())
    assert book.make()[0] == 0
    assert len(book.executions()) == before
    for value in (2, 1):
        book.notebooks(value)
        assert book.make()[0] == 0
        assert shows(book, value)


def test_a_build_that_was_killed_is_run_again(book):
    book.notebooks(2, seconds=60)
    make = book.start()
    assert wait_for(lambda: len(book.executions()) == 4)
    os.killpg(make.pid, signal.SIGKILL)
    make.communicate()
    assert not (book.root / "build/quick/figures/one-2.svg").exists()
    book.notebooks(3)
    assert book.make()[0] == 0
    assert shows(book, 3)


def test_a_site_is_of_what_is_published_and_only_what_changed_is_published_anew(book):
    assert book.make("publish")[0] == 0
    published = book.root / "book/published"
    names = sorted(path.name for path in published.rglob("*") if path.is_file())
    runs = ["one.json", "two.json"]
    figures = ["one-1.svg", "two-1.svg"]
    assert names == sorted(["ledger.json", "one.ipynb", "two.ipynb", *figures, *runs])
    assert book.make("site")[0] == 0
    assert "one-1.svg" in book.page
    assert sys.executable not in book.page
    before = len(book.executions())
    assert book.make("publish")[0] == 0
    assert len(book.executions()) == before
    text = (book.root / "notebooks/two.py").read_text("utf-8")
    book.write("notebooks/one.py", "# %% [markdown]\n# A sentence.\n" + text.replace("two", "one"))
    book.write("notebooks/two.py", text.replace("two-1", "two-3").replace(", 1)", ", 3)"))
    shutil.rmtree(book.root / "build/paper")
    path = book.root / "book/published/ledger.json"
    ledger = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps([*ledger, ledger[0] | {"id": "gone"}]), "utf-8")
    assert book.make("publish")[0] == 0
    assert book.executions()[before:] == ["two"]
    ledger = json.loads(path.read_text("utf-8"))
    values = {record["id"]: record["value"] for record in ledger}
    assert list(values.values()) == [1, 3, 1]
    assert "gone" in values  # its claim is gone, and a chapter shown as it ran may cite it


def test_data_that_are_nowhere_are_refused_in_one_sentence(book):
    code, output = book.make(ACVLIB_DATA="/nowhere")
    assert code == 2
    assert "ACVLIB_DATA=/nowhere is not a directory" in output
    assert "Traceback" not in output


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
