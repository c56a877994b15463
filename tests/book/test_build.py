"""make book, in a folder with spaces and umlauts: the next make shows what the sources say."""

import json
import os
import shutil
import signal
import sys

import pytest
from small_book import SmallBook, wait_for


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    book = SmallBook(tmp_path_factory.mktemp("Bücher und mehr") / "Straße").create()
    code, output = book.make()
    assert code == 0, output
    assert sorted(name for name, _ in book.executions()) == ["one", "two"]
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


def test_publish_and_site(book):
    assert book.make("publish")[0] == 0
    published = book.root / "book/published"
    names = sorted(path.name for path in published.rglob("*") if path.is_file())
    runs = ["one.json", "two.json"]
    figures = ["one-1.svg", "two-1.svg"]
    assert names == sorted(["ledger.json", "one.ipynb", "two.ipynb", *figures, *runs])
    assert book.make("site")[0] == 0
    assert "one-1.svg" in book.page
    assert sys.executable not in book.page


def test_only_the_chapter_that_changed_is_published_anew(book):
    assert book.make("publish")[0] == 0
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
    assert [name for name, _ in book.executions()[before:]] == ["two"]
    ledger = json.loads(path.read_text("utf-8"))
    values = {record["id"]: record["value"] for record in ledger}
    assert list(values.values()) == [1, 3, 1]
    assert "gone" in values  # its claim is gone, and a chapter shown as it ran may cite it


def test_data_that_are_nowhere_are_refused_in_one_sentence(book):
    code, output = book.make(ACVLIB_DATA="/nowhere")
    assert code == 2
    assert "ACVLIB_DATA=/nowhere is not a directory" in output
    assert "Traceback" not in output
