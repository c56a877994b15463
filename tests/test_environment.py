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


@pytest.mark.parametrize("requirement", DIRECT)
def test_dependency_has_a_reason(requirement):
    reasons = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert re.search(rf"^- `{re.escape(name(requirement))}`: \w+", reasons, re.MULTILINE)
