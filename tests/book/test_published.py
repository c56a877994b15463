"""The published chapters are of one state of the code, also where they ran at several commits."""

import json
import subprocess
from functools import cache
from pathlib import Path

import jupytext
import pytest
from acvbook.ledger import problems
from chapters import code_of

ROOT = Path(__file__).resolve().parents[2]
SHARED = ("acvlib", "book/acvbook", "requirements.lock", "tools/run_notebook.py")


@cache
def git(*arguments):
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def ledger():
    return json.loads((ROOT / "book/published/ledger.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def commits(ledger):
    """{chapter: the commit at which it ran}."""
    ran = {(record["notebook"], record["commit"]) for record in ledger}
    assert len(ran) == len({notebook for notebook, _ in ran}), "a chapter of two commits"
    for commit in {commit for _, commit in ran}:
        try:
            git("cat-file", "-e", f"{commit}^{{commit}}")
        except (OSError, subprocess.CalledProcessError):
            pytest.skip(f"the history does not reach back to {commit}")
    return dict(ran)


def test_the_published_ledger_is_complete_and_each_failure_has_its_reason(ledger):
    assert problems(ledger) == []


def newest(commits):
    return git("rev-list", "--no-walk=sorted", *sorted(set(commits.values()))).splitlines()[0]


@pytest.mark.parametrize("path", SHARED)
def test_what_all_chapters_run_is_the_same_at_their_commits(commits, path):
    versions = {commit: git("rev-parse", f"{commit}:{path}") for commit in commits.values()}
    assert len(set(versions.values())) == 1, versions


def test_no_chapters_code_was_edited_after_it_ran(commits):
    """Its sentences may be mended: the pages take them from the source as it is now."""
    last = newest(commits)
    edited = [name for name in commits if code(commits[name], name) != code(last, name)]
    assert not edited


def code(commit, name):
    """The code of a chapter's notebook at a commit, as the build compares it."""
    notebook = jupytext.reads(git("show", f"{commit}:notebooks/{name}.py"), fmt="py:percent")
    return code_of(notebook.cells)
