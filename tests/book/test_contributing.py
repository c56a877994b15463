"""CONTRIBUTING.md leads to files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FOLDERS = (
    "",
    "acvlib",
    "acvlib/inference",
    "acvlib/treecv",
    "acvlib/models/hmm",
    "acvlib/models/hmm/emissions",
    "book",
    "tests",
    "tests/book",
)
ABSENT = (
    "build/.made/",
    "build/bench/",
    "figures/name.svg",
    "notebooks/NN_name.py",
    "utils.py",
)  # not yet, or ever


def exists(path):
    """Whether a path, or one that fits its <placeholders>, is below one of the folders."""
    pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
    return any(found for folder in FOLDERS for found in (ROOT / folder).glob(pattern))


def test_every_path_exists():
    words = re.findall(r"(?<!`)`([^`\s]+)`(?!`)", TEXT)
    paths = {word for word in words if re.search(r"/|\.(py|toml|yml|lock|txt|md)$", word)}
    named = sorted(paths - set(ABSENT))
    assert len(named) > 30
    assert [path for path in named if not exists(path)] == []
