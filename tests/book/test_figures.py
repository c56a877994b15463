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


def test_the_word_for_the_data_is_below_a_legend_outside_the_axes(tmp_path):
    legends = []
    for data in (None, SimpleNamespace(provenance="simulated")):
        fig, axes = figures.subplots(1, 2, figsize=(10, 4))
        for ax in axes:
            for name in ("no_adjustment", "infinitesimal_jackknife", "newton_step", "exact"):
                ax.plot([0, 1], [0, 1], **figures.RUNGS[name].look)
        figures.save(fig, "wide", data, tmp_path)
        legends.append(fig.legends[0].get_window_extent())
    assert legends[1].extents == pytest.approx(legends[0].extents, abs=1.0)
    assert fig.texts[-1].get_window_extent().y1 < legends[1].y0
