"""Files and folders are whole or not there: the writer is killed between any two of its steps,
the disk is full, or two write at once.
"""

import itertools
import os
import signal
import sys
import threading

import pytest
from acvbook import origin, whole

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "open"}
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def killed_before(step, work):
    """Whether `work()`, in a process of its own, was killed before its `step`-th change of a
    file; or else it came to its end.
    """
    child = os.fork()
    if child == 0:
        steps = itertools.count()

        def hook(event, arguments):
            reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if event in CHANGES and not reads and next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def tree(folder):
    """{path: content} of what is in a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def fill(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def every_step(folder, prepare, work, check):
    """Kill `work` before each of its steps in turn, in a new folder; returns how many there are."""
    killed, step = True, -1
    while killed:
        step += 1
        place = folder / str(step)
        place.mkdir()
        prepare(place)
        killed = killed_before(step, lambda place=place: work(place))
        check(place)
    return step


OLD = {"ledger.json": "[ ]", "figures/a.svg": "old", "figures/b.svg": "old"}


def test_delivery_killed_between_any_two_steps_leaves_nothing_behind(tmp_path):
    """Notebook B replaces A and is killed; when A is delivered again, nothing of B is there. No
    half of a run has an origin.
    """
    first = {
        "figures/a.svg": "A",
        "figures/both.svg": "A",
        "ledger/one.json": "A",
        "one.ipynb": "A",
    }
    second = {"figures/b.svg": "B", "figures/both.svg": "B", "one.ipynb": "B"}

    def deliver(place, files):
        staging = place / f"of {files['one.ipynb']}"
        fill(staging, files)
        origin.deliver(staging, place / "out", "one", {"code": files["one.ipynb"]})

    def made(place):
        return {name: text for name, text in tree(place / "out").items() if "runs" not in name}

    def check(place):
        run, there = origin.run_of("one", place / "out"), made(place)
        assert set(there) <= set(run["files"])
        assert "code" not in run or set(there.values()) == {run["code"]}
        deliver(place, first)
        assert made(place) == first

    steps = every_step(
        tmp_path,
        lambda place: deliver(place, first),
        lambda place: deliver(place, second),
        check,
    )
    assert steps > 8


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
    reader.start()
    writers = [threading.Thread(target=write_often, args=[text]) for text in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    ended.set()
    reader.join()
    assert not torn
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path):
    whole.write(tmp_path / "f", "old")
    with pytest.raises(ZeroDivisionError), whole.replacing(tmp_path / "f") as draft:
        draft.write_text(f"half {1 / 0}")
    assert tree(tmp_path) == {"f": "old"}


def test_a_folder_that_cannot_be_made_leaves_the_old_one(tmp_path):
    fill(tmp_path / "folder", OLD)
    folder = tmp_path / "folder"
    with pytest.raises(TypeError), whole.replacing_folder(folder) as draft:
        fill(draft, {"half": "", "no text": None})
    assert tree(tmp_path) == {f"folder/{name}": text for name, text in OLD.items()}


def test_one_writer_of_a_folder_at_a_time(tmp_path, capsys):
    def come_and_go():
        with whole.locked(tmp_path, "another"):
            pass

    with whole.locked(tmp_path):
        waiting = threading.Thread(target=come_and_go)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
    waiting.join(5)
    assert not waiting.is_alive()
    assert capsys.readouterr().out == f"another is at work in {tmp_path}: waiting for it to end\n"
