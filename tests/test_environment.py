"""Both pyprojects, environment.yml, requirements.lock and CONTRIBUTING.md name the same
packages.
"""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT, BOOK = (
    tomllib.loads((ROOT / path).read_text("utf-8"))["project"]
    for path in ("pyproject.toml", "book/pyproject.toml")
)
EVERYTHING = [
    *PROJECT["dependencies"],
    *sum(PROJECT["optional-dependencies"].values(), []),
    *BOOK["dependencies"],
]
DIRECT = sorted(
    {requirement for requirement in EVERYTHING if not requirement.startswith("acvlib[")}
)


def name(requirement):
    """Name of a requirement, spelled as package indexes compare it."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_conda_environment_has_the_same_dependencies():
    text = (ROOT / "environment.yml").read_text("utf-8")
    listed = [
        line.strip().removeprefix("- ")
        for line in text.splitlines()
        if re.match(r" +- \S+[=<>]", line)
    ]
    assert sorted(listed) == sorted([*DIRECT, f"python{PROJECT['requires-python']}"])


@pytest.mark.parametrize("requirement", DIRECT)
def test_dependency_is_locked(requirement):
    locked = [
        name(line)
        for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()
        if line[0] != "#"
    ]
    assert name(requirement) in locked


def test_lock_is_portable():
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines if line[0] != "#")
    assert not [line for line in lines if line.startswith(("nvidia", "triton"))]


def test_all_that_is_locked_has_hashes_but_torch():
    """`make lock` refreshes them; a wheel of torch is another one on every machine."""
    hashed = {}
    for path in (ROOT / "requirements").glob("*.txt"):
        entries = re.split(r"\n(?=\w)", path.read_text("utf-8").strip())
        hashed |= {name(entry): entry for entry in entries}
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    locked = {name(line): line.split("==")[1] for line in lines if line[0] != "#"}
    assert set(locked) - {"torch"} == set(hashed)
    for package, entry in hashed.items():
        version, *hashes = re.split(r"\s*\\\s+", entry)
        assert version.split("==")[1] == locked[package], version
        assert hashes, package
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), package


@pytest.mark.parametrize("requirement", DIRECT)
def test_dependency_has_a_reason(requirement):
    reasons = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert re.search(rf"^- `{re.escape(name(requirement))}`: \w+", reasons, re.MULTILINE)
