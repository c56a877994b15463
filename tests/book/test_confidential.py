"""Nothing of CoNLL-2003's text is in git or in a built page.

Its licence does not let us show it.
"""

import html
import re
import subprocess
from pathlib import Path

import pytest
from acvbook import datasets

ROOT = Path(__file__).parent.parent.parent
RUN = 7  # words in a row that no text of ours has by chance
ASIDE = re.compile(
    r"[BIES]-[A-Z]+|O|[-+]?\d+(\.\d+)?"
)  # what a table may put between the words of a sentence


def runs(words):
    return {tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1)}


@pytest.fixture(scope="module")
def held_back():
    """All runs of RUN words of the set, and the same without what looks like tags and numbers."""
    try:
        text = datasets.load_conll2003()
    except datasets.DataNotFound:
        pytest.skip("CoNLL-2003 is not here: nothing to look for")
    sentences = [s for part in (text.train, text.valid, text.test) for s in part.words]
    return set().union(*(runs(s) | runs(bare(s)) for s in sentences))


def bare(words):
    return [word for word in words if not ASIDE.fullmatch(word)]


def found(page, held_back):
    words = re.split(r"[\s\"\\,]+|\\n", html.unescape(re.sub(r"<[^>]*>", " ", page)))
    return (runs(words) | runs(bare(words))) & held_back


def test_the_search_finds_a_sentence_shown_as_text_or_as_a_table(held_back):
    sentence = max(held_back)
    cells = "".join(
        f"<tr><th>{i}</th><td>{word}</td><td>B-PER</td><td>0.5</td></tr>"
        for i, word in enumerate(sentence)
    )
    for page in (f"<p>{' '.join(sentence)}</p>", f"<table>{cells}</table>"):
        assert found(page, held_back)


def test_no_sentence_is_in_a_built_page(held_back):
    folders = [ROOT / "book" / "_build", ROOT / "book" / "published", ROOT / "build"]
    pages = [
        path
        for folder in folders
        for kind in ("html", "ipynb", "json")
        for path in folder.rglob(f"*.{kind}")
    ]
    assert [
        path for path in pages if found(path.read_text("utf-8", errors="ignore"), held_back)
    ] == []


def test_no_sentence_is_in_git(held_back):
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git here")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    texts = [path for path in paths if path.is_file() and path.suffix != ".svg"]
    assert [
        path for path in texts if found(path.read_text("utf-8", errors="ignore"), held_back)
    ] == []
