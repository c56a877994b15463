"""Nothing of CoNLL-2003's text, which we may not show, is in git or in a built page."""

import html
import re
import subprocess

import pytest
from acvbook import datasets
from places import ROOT

RUN = 7  # words in a row that no text of ours has by chance
# what a table may put between the words of a sentence
ASIDE = re.compile(r"[BIES]-[A-Z]+|O|[-+]?\d+(\.\d+)?")


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


def showing(paths, held_back):
    return [path for path in paths if found(path.read_text("utf-8", errors="ignore"), held_back)]


def test_the_search_finds_a_sentence_as_text_or_table_and_none_is_in_a_built_page(held_back):
    sentence = max(held_back)
    row = "<tr><th>{}</th><td>{}</td><td>B-PER</td><td>0.5</td></tr>"
    cells = "".join(row.format(i, word) for i, word in enumerate(sentence))
    for page in (f"<p>{' '.join(sentence)}</p>", f"<table>{cells}</table>"):
        assert found(page, held_back)
    folders = [ROOT / "book" / "_build", ROOT / "book" / "published", ROOT / "build"]
    kinds = (".html", ".ipynb", ".json")
    pages = [path for each in folders for path in each.rglob("*") if path.suffix in kinds]
    assert showing(pages, held_back) == []


def test_no_sentence_is_in_git(held_back):
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True)
    if listed.returncode:
        pytest.skip("no git here")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    texts = [path for path in paths if path.is_file() and path.suffix != ".svg"]
    assert showing(texts, held_back) == []
