"""Tagged sentences: schemes told apart, files read, stand-ins, and the real sets where they are."""

import numpy as np
import pytest
from acvbook import datasets
from acvbook.datasets.tagged import TaggedText, simulated_text
from acvbook.datasets.wnut17 import merge
from hypothesis import given
from hypothesis import strategies as st


def iob1(tags):
    """IOB2 tags in IOB1, written independently: B- only behind an entity of the same type."""
    before = ("O", *tags[:-1])
    return tuple(
        "I" + t[1:] if t[0] == "B" and b[1:] != t[1:] else t
        for b, t in zip(before, tags, strict=True)
    )


def bioes(tags):
    after = (*tags[1:], "O")
    prefixes = {("B", True): "B", ("B", False): "S", ("I", True): "I", ("I", False): "E"}
    return tuple(
        t if t == "O" else prefixes[t[0], a == f"I{t[1:]}"] + t[1:]
        for t, a in zip(tags, after, strict=True)
    )


@st.composite
def iob2(draw):
    spans = draw(
        st.lists(
            st.tuples(st.sampled_from(["", "PER", "LOC"]), st.integers(1, 3)),
            min_size=1,
            max_size=5,
        )
    )
    words = [
        [f"{'I' if i else 'B'}-{kind}" if kind else "O" for i in range(size)]
        for kind, size in spans
    ]
    return tuple(sum(words, []))


@given(iob2())
def test_schemes_round_trip(tags):
    assert datasets.to_iob2(tags, "IOB2") == tags
    assert datasets.to_iob2(iob1(tags), "IOB1") == tags
    assert datasets.to_iob2(bioes(tags), "BIOES") == tags


@pytest.mark.parametrize(
    ("tags", "scheme", "message"),
    [
        (["O", "I-PER"], "IOB2", "'I-PER' at position 1 is not IOB2: the sentence is valid IOB1"),
        (
            ["O", "B-PER", "O"],
            "IOB1",
            "'B-PER' at position 1 is not IOB1: the sentence is valid IOB2",
        ),
        (["S-PER", "O"], "IOB2", "'S-PER' at position 0 is not IOB2: the sentence is valid BIOES"),
        (
            ["B-PER", "I-PER"],
            "BIOES",
            "'I-PER' at position 1 is not BIOES: the sentence is valid IOB2",
        ),
        (
            ["B-PER", "I-LOC"],
            "IOB2",
            "'I-LOC' at position 1 is not IOB2: it is valid in no known scheme",
        ),
        (["O", "X-PER"], "IOB1", "'X-PER' is no tag"),
        (["PER"], "IOB2", "'PER' is no tag"),
        (["O"], "BILOU", "unknown tag scheme 'BILOU': one of IOB1, IOB2, BIOES"),
    ],
)
def test_wrong_schemes_are_named(tags, scheme, message):
    with pytest.raises(ValueError, match=message):
        datasets.to_iob2(tags, scheme)


LINES = [
    "-DOCSTART- -X- O O",
    "",
    "",
    "Ada NNP I-NP I-PER",
    "wrote VBD I-VP O",
    "",
    "-DOCSTART- -X- O O",
    "Bo NNP I-NP I-PER",
]


def test_blank_lines_and_document_starts():
    """Blank lines repeat, one -DOCSTART- has none behind it, and the last sentence none at all."""
    kept = datasets.read_columns(LINES, "IOB1")
    assert kept.words == (("-DOCSTART-",), ("Ada", "wrote"), ("-DOCSTART-",), ("Bo",))
    assert kept.tags == (("O",), ("B-PER", "O"), ("O",), ("B-PER",))
    assert datasets.read_columns(LINES, "IOB1", docstart="drop").words == (
        ("Ada", "wrote"),
        ("Bo",),
    )


def test_bad_files_are_named():
    with pytest.raises(ValueError, match="line 2 has one column"):
        datasets.read_columns(["a O", "b"], "IOB2")
    with pytest.raises(ValueError, match="sentence 1: tag 'I-PER' at position 0 is not IOB2"):
        datasets.read_columns(["a O", "", "b I-PER"], "IOB2")
    with pytest.raises(ValueError, match="sentence 0: unknown tag scheme"):
        datasets.read_columns(["a O"], "iob")
    with pytest.raises(ValueError, match="keep or drop"):
        datasets.read_columns(LINES, "IOB1", docstart="no")


def test_slips_are_counted():
    lines = ["a O", "b B-PER", "", "c O", "d B-LOC"]
    assert datasets.read_columns(lines, "IOB1", slips=2).tags == (("O", "B-PER"), ("O", "B-LOC"))
    with pytest.raises(ValueError, match="sentence 1"):
        datasets.read_columns(lines, "IOB1", slips=1)


def test_texts_check_their_sentences():
    good = datasets.Sentences((("a",),), (("O",),))
    for bad, message in [
        (datasets.Sentences(((),), ((),)), "sentence 0 is empty"),
        (datasets.Sentences((("a", "b"),), (("O",),)), "2 words and 1 tags"),
        (datasets.Sentences((("a",),), ()), "1 sentences of words and 0 of tags"),
    ]:
        with pytest.raises(ValueError, match=message):
            TaggedText("x", good, bad, good, "simulated", "", True)


def test_head_keeps_provenance_and_hides_text():
    text = simulated_text("x", np.random.default_rng(0), (9, 8, 7), 5.0, 0.2).head(5, 4, 3)
    assert [len(part.words) for part in (text.train, text.valid, text.test)] == [5, 4, 3]
    assert repr(text) == "TaggedText(x: 5/4/3 sentences, simulated)"


def test_merged_types():
    assert [merge(tag) for tag in ("O", "B-person", "I-group", "B-corporation")] == [
        "O",
        "B-PER",
        "I-ORG",
        "B-ORG",
    ]
    assert merge("I-creative-work") == "I-MISC"
