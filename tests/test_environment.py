"""Both pyprojects, environment.yml, requirements.lock, CONTRIBUTING.md name the same packages."""

import re
import tomllib

import pytest
from places import ROOT

import acvlib

BOTH = [tomllib.loads((ROOT / p / "pyproject.toml").read_text("utf-8")) for p in ("", "book")]
PROJECT, BOOK = (each["project"] for each in BOTH)
BUILD = BOTH[0]["build-system"]["requires"]
EVERYTHING = {*PROJECT["dependencies"], *BOOK["dependencies"]}
EVERYTHING = EVERYTHING.union(*PROJECT["optional-dependencies"].values())
DIRECT = sorted(each for each in EVERYTHING if not each.startswith("acvlib["))
LOCK = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
LOCK = [line for line in LOCK if line[0] != "#"]


def name(requirement):
    """Name of a requirement, spelled as package indexes compare it."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_conda_environment_has_the_same_dependencies():
    text = (ROOT / "environment.yml").read_text("utf-8")
    listed = re.findall(r"^ +- (\S+[=<>].*?)\s*$", text, re.MULTILINE)
    assert sorted(listed) == sorted([*DIRECT, f"python{PROJECT['requires-python']}"])


def test_conda_recipe_has_what_acvlib_needs_and_its_version():
    text = (ROOT / "tools/conda/recipe.yaml").read_text("utf-8")
    listed = re.findall(r"^ +- (\S+) (>=\S+)$", text, re.MULTILINE)
    needed = 2 * [f"python{PROJECT['requires-python']}"] + BUILD + PROJECT["dependencies"]
    assert sorted(map("".join, listed)) == sorted(needed)
    assert f"\n  version: {acvlib.__version__}\n" in text


def test_lock_is_portable():
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in LOCK)
    assert not [line for line in LOCK if line.startswith(("nvidia", "triton"))]


def test_all_that_is_locked_has_hashes_but_torch():
    """`make lock` refreshes them; a wheel of torch is another one on every machine."""
    hashed = {}
    for path in (ROOT / "requirements").glob("*.txt"):
        entries = re.split(r"\n(?=\w)", path.read_text("utf-8").strip())
        hashed |= {name(entry): entry for entry in entries}
    locked = {name(line): line.split("==")[1] for line in LOCK}
    assert set(locked) - {"torch"} == set(hashed)
    for package, entry in hashed.items():
        version, *hashes = re.split(r"\s*\\\s+", entry)
        assert version.split("==")[1] == locked[package], version
        assert hashes, package
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), package


@pytest.mark.parametrize("requirement", DIRECT)
def test_dependency_is_locked_and_has_a_reason(requirement):
    assert name(requirement) in map(name, LOCK)
    reasons = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert re.search(rf"^- `{re.escape(name(requirement))}`: \w+", reasons, re.MULTILINE)
