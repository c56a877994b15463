"""Saved figures: the same file for the same figure, and a stand-in says so on its face."""

from types import SimpleNamespace

import pytest
from acvbook import figures


@pytest.fixture(autouse=True)
def output(tmp_path, monkeypatch):
    monkeypatch.setenv("ACVLIB_OUTPUT", str(tmp_path))
    return tmp_path / "figures"


def drawn(name, data=None):
    fig, ax = figures.subplots()
    ax.plot([1, 3, 2], label="line")
    return figures.save(fig, name, data)


def test_same_figure_is_same_file(output):
    drawn("one")
    drawn("two")
    assert (output / "one.svg").read_bytes() == (output / "two.svg").read_bytes()
    assert sorted(path.name for path in output.iterdir()) == ["one.svg", "two.svg"]


@pytest.mark.parametrize(
    ("provenance", "texts"),
    [
        ("simulated", ["simulated data"]),
        ("rebuilt", ["rebuilt data"]),
        ("real", []),
        ("real, partial", []),
    ],
)
def test_only_a_stand_in_is_marked(provenance, texts):
    fig = drawn("marked", SimpleNamespace(provenance=provenance))
    assert [text.get_text() for text in fig.texts] == texts
