"""Files are whole or not there: a delivery is stopped at any step, two write at once."""

import threading
from pathlib import Path

import pytest
from acvbook import origin, whole

FIRST = {"figures/a.svg": "A", "figures/both.svg": "A", "ledger/one.json": "A", "one.ipynb": "A"}
SECOND = {"figures/b.svg": "B", "figures/both.svg": "B", "one.ipynb": "B"}


def made(folder):
    """{path: content} of what is in a folder, but for the records of runs."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "runs"]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def deliver(place, files):
    staging = place / f"of {files['one.ipynb']}"
    for name, content in files.items():
        whole.write(staging / name, content)
    origin.deliver(staging, place / "out", "one", {"code": files["one.ipynb"]})


@pytest.mark.parametrize("step", range(8))
def test_a_delivery_that_is_stopped_leaves_nothing_behind(tmp_path, monkeypatch, step):
    """The second run replaces the first and is stopped; delivered again, nothing of it is left."""
    deliver(tmp_path, FIRST)
    steps = iter(range(100))

    def stopping(method):
        def change(*arguments, **settings):
            if next(steps) == step:
                raise InterruptedError
            return method(*arguments, **settings)

        return change

    with monkeypatch.context() as patched:
        for name in ("replace", "unlink"):
            patched.setattr(Path, name, stopping(getattr(Path, name)))
        with pytest.raises(InterruptedError):
            deliver(tmp_path, SECOND)
    run, there = origin.run_of("one", tmp_path / "out"), made(tmp_path / "out")
    assert set(there) <= set(run["files"])
    assert "code" not in run or set(there.values()) == {run["code"]}
    deliver(tmp_path, FIRST)
    assert made(tmp_path / "out") == FIRST


def test_two_writers_do_not_tear_a_file(tmp_path):
    contents = [bytes([65 + i]) * 300_000 for i in range(4)]
    path, torn, ended = tmp_path / "f", [], threading.Event()
    whole.write(path, contents[0])

    def read():
        while not ended.is_set():
            torn.extend(text for text in [path.read_bytes()] if text not in contents)

    def write_often(content):
        for _ in range(20):
            whole.write(path, content)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write_often, args=[content]) for content in contents]
    for thread in [reader, *writers]:
        thread.start()
    for writer in writers:
        writer.join()
    ended.set()
    reader.join()
    assert not torn
    assert [file.name for file in tmp_path.iterdir()] == ["f"]


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path):
    whole.write(tmp_path / "f", "old")
    with pytest.raises(ZeroDivisionError), whole.replacing(tmp_path / "f") as draft:
        draft.write_text(f"half {1 / 0}")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]
