"""make book, in a folder with spaces and umlauts: the next make shows what the sources say.

Running a notebook: all or nothing arrives, failures show their cell, no trace of the machine. What
the hosted build may do, by pinned actions; and that CI runs as a stranger first.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
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


def test_nothing_is_done_twice_a_reverted_source_is_built_again_and_lost_data_are_named(book):
    before = len(book.executions())
    assert book.make()[0] == 0
    assert len(book.executions()) == before
    for value in (2, 1):
        book.notebooks(value)
        assert book.make()[0] == 0
        assert shows(book, value)
    code, output = book.make(ACVLIB_DATA="/nowhere")
    assert code == 2
    assert "ACVLIB_DATA=/nowhere is not a directory" in output
    assert "Traceback" not in output


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


def run(place, last_cell):
    """The finished process of a notebook that ends in the given cell."""
    notebook = place / "demo.py"
    notebook.write_text(HEADER + CELLS + last_cell, "utf-8")
    command = [sys.executable, "tools/run_notebook.py", notebook, place / "quick"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_a_failed_notebook_shows_its_cell_and_leaves_nothing_a_finished_one_is_whole(tmp_path):
    process = run(tmp_path, "ratio = 1 / 0")
    assert process.returncode == 1
    assert "ratio = 1 / 0" in process.stderr
    assert "ZeroDivisionError: division by zero" in process.stderr
    assert "\x1b" not in process.stderr
    assert not (tmp_path / "quick" / "demo.ipynb").exists()
    assert not (tmp_path / "quick" / "figures").exists()
    process = run(tmp_path, "os.getcwd() + '/acvlib'")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "quick" / "figures" / "a.svg").read_text("utf-8") == "quick"
    text = (tmp_path / "quick" / "demo.ipynb").read_text("utf-8")
    assert str(ROOT) not in text
    assert "start_time" not in text
    hidden = [cell["metadata"].get("tags", []) for cell in json.loads(text)["cells"]][1]
    assert hidden == ["remove-cell", "injected-parameters"]
    assert process.stdout.splitlines()[0] == "demo: started at quick scale"
    assert len(process.stdout.splitlines()) == 2


def test_only_main_may_write_actions_are_pinned_by_commit_and_nothing_of_strangers_is_run():
    """And the public workflow runs the script that CI runs here."""
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    texts = [path.read_text("utf-8") for path in files]
    for text in texts:
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    jobs = [job for text in texts for job in yaml.safe_load(text)["jobs"].items()]
    writing = {name: job for name, job in jobs if "write" in str(job.get("permissions"))}
    assert set(writing) == {"publish"}
    needed = {"contents": "read", "pages": "write", "id-token": "write"}
    assert writing["publish"]["permissions"] == needed
    condition = "github.event_name == 'push' && github.ref == 'refs/heads/main'"
    assert writing["publish"]["if"] == condition
    assert writing["publish"]["needs"] == "check"
    used = [step["uses"] for _, job in jobs for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)
    assert not [text for text in texts if "pull_request_target" in text]
    assert not [step for _, job in jobs for step in job["steps"] if "${{" in step.get("run", "")]
    runs = [step.get("run") for name, job in jobs if name == "check" for step in job["steps"]]
    assert "bash .ci/run" in runs
    assert all("ACVLIB_DATA" not in text for text in texts)


STUB = '#!/bin/sh\necho "$(basename "$0") $* ${ACVLIB_DATA-unset}" >> "$LOG"\n'


def steps_of_ci(place, data):
    """The commands of .ci/run, each with the ACVLIB_DATA that it sees, where nothing is real."""
    (place / "main/.ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", place / "main/.ci")
    commands = ["make", "chromedriver", "main/.venv/bin/python"]
    for path in [place / name for name in commands]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STUB)
        path.chmod(0o755)
    if data:
        (place / "shared/data").mkdir(parents=True)
    changed = {"PATH": f"{place}:{os.environ['PATH']}", "LOG": str(place / "log")}
    environment = os.environ | changed | {"ACVLIB_DATA": "/somewhere"}
    run = ["bash", str(place / "main/.ci/run")]
    process = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert process.stdout.splitlines()[-1].endswith(" passed, 0 failed")
    return [line.rpartition(" ") for line in (place / "log").read_text().splitlines()]


def test_ci_builds_and_tests_all_as_a_stranger_before_it_looks_at_data(tmp_path):
    without = steps_of_ci(tmp_path / "of a stranger", data=False)
    assert {data for _, _, data in without} == {"unset"}
    steps = steps_of_ci(tmp_path, data=True)
    as_stranger = [step for step, _, data in steps if data == "unset"]
    with_data = [step for step, _, data in steps if data == str(tmp_path / "shared/data")]
    assert [step for step, _, _ in steps] == as_stranger + with_data
    judge = "python tools/judge.py check build/quick"
    needed = ["lint", "test", "wheel", "test-book", "book", "check"]
    assert {*(f"make {name}" for name in needed), judge} <= set(as_stranger)
    assert with_data == ["make test-data", "make book", judge]


OLD = "import sys; sys.version_info, sys.version = (3, 10), '3.10.9 '; exec(sys.argv[1])"


def test_make_says_what_a_machine_lacks_before_it_installs():
    """The second as another user than root, who may write everywhere."""
    with tempfile.TemporaryDirectory() as place:
        os.mkdir(f"{place}/requirements")
        for name in ("requirements/library.txt", "requirements.lock", "pyproject.toml"):
            open(f"{place}/{name}", "w").close()
        Path(place, "old").write_text(f'{sys.executable} -c "{OLD}" "$2"')
        shutil.copy(ROOT / "Makefile", place)
        other = {"user": 65534} if os.geteuid() == 0 else {}
        said = {}
        for python, mode, user in ("sh old", 0o755, {}), ("true", 0o555, other):
            os.chmod(place, mode)
            run = ["make", "test", f"PYTHON={python}"]
            said[python] = subprocess.run(run, cwd=place, capture_output=True, text=True, **user)
        os.chmod(place, 0o755)
    assert "acvlib needs Python 3.11 or newer, and sh old is 3.10.9" in said["sh old"].stderr
    assert "cannot be written: make installs" in said["true"].stdout
    assert all(made.returncode for made in said.values())
