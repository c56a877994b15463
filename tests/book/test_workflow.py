"""What the hosted build may do: read, but for the job that publishes main; of actions pinned by
commit.
"""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent.parent
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


def test_actions_are_pinned_by_commit():
    used = [step["uses"] for _, job in JOBS for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)


def test_nothing_that_a_stranger_writes_is_run():
    """No expression of a pull request in a script, and no workflow that gives one our rights."""
    for path in FILES:
        text = path.read_text("utf-8")
        assert "pull_request_target" not in text
    assert not [step for _, job in JOBS for step in job["steps"] if "${{" in step.get("run", "")]
