"""What the hosted build may do, by pinned actions; and that CI runs as a stranger first."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from places import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS = [job for path in FILES for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items()]


def test_only_publishing_main_may_write():
    for path in FILES:
        assert yaml.safe_load(path.read_text("utf-8"))["permissions"] == {"contents": "read"}
    writing = {name: job for name, job in JOBS if "write" in str(job.get("permissions"))}
    assert set(writing) == {"publish"}
    needed = {"contents": "read", "pages": "write", "id-token": "write"}
    assert writing["publish"]["permissions"] == needed
    condition = "github.event_name == 'push' && github.ref == 'refs/heads/main'"
    assert writing["publish"]["if"] == condition
    assert writing["publish"]["needs"] == "check"


def test_actions_are_pinned_by_commit_and_nothing_that_a_stranger_writes_is_run():
    used = [step["uses"] for _, job in JOBS for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)
    assert not [path for path in FILES if "pull_request_target" in path.read_text("utf-8")]
    assert not [step for _, job in JOBS for step in job["steps"] if "${{" in step.get("run", "")]


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


def test_the_public_workflow_runs_the_same_script():
    runs = [step.get("run") for name, job in JOBS if name == "check" for step in job["steps"]]
    assert "bash .ci/run" in runs
    assert all("ACVLIB_DATA" not in path.read_text("utf-8") for path in FILES)


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
