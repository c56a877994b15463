"""The README's own example runs as it stands and says what it is said to say."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_example_runs_and_prints_the_table(capsys):
    code = re.search(r"```python\n(.*?)```", README, re.S)[1]
    assert len(code.splitlines()) <= 12
    names = {}
    exec(code, names)
    shown = re.search(r"```\n( +loss.*?)```", README, re.S)[1]
    without_seconds = [line.split()[:-1] for line in shown.splitlines()]
    assert [line.split()[:-1] for line in capsys.readouterr().out.splitlines()] == without_seconds
    assert names["table"]["theta_error"].is_monotonic_increasing


def test_book_starts_with_the_same_example():
    code = re.search(r"```python\n.*?```", README, re.S)[0]
    assert code in (ROOT / "book/index.md").read_text("utf-8")
