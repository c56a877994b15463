"""Tagged sentences: schemes told apart, files read."""

import numpy as np
from acvbook import datasets
from acvbook.datasets.tagged import merge, simulated_text, to_iob2
from hypothesis import given
from hypothesis import strategies as st

SPANS = st.lists(
    st.tuples(st.sampled_from(["", "PER", "LOC"]), st.integers(1, 3)), min_size=1, max_size=5
)
LINES = ["-DOCSTART- O", "", "", "Ada NNP I-PER", "wrote VBD O", "", "-DOCSTART- O", "Bo NNP I-PER"]


@given(SPANS)
def test_schemes_round_trip(spans):
    """IOB1 written independently: B- only behind an entity of the same type."""
    iob2 = [f"{'I' if i else 'B'}-{k}" if k else "O" for k, size in spans for i in range(size)]
    pairs = list(zip(["O", *iob2[:-1]], iob2, strict=True))
    iob1 = [f"I{t[1:]}" if t[0] == "B" and b[1:] != t[1:] else t for b, t in pairs]
    assert to_iob2(iob2) == to_iob2(iob1) == tuple(iob2)


def test_blank_lines_and_document_starts():
    """Blank lines repeat, one -DOCSTART- has none behind it, and the last sentence none at all."""
    kept = datasets.read_columns(LINES)
    assert kept.words == (("-DOCSTART-",), ("Ada", "wrote"), ("-DOCSTART-",), ("Bo",))
    assert kept.tags == (("O",), ("B-PER", "O"), ("O",), ("B-PER",))


def test_head_keeps_provenance_and_hides_text():
    text = simulated_text("x", np.random.default_rng(0), (9, 8, 7), 5.0, 0.2).head(5, 4, 3)
    assert [len(part.words) for part in (text.train, text.valid, text.test)] == [5, 4, 3]
    assert repr(text) == "TaggedText(x: 5/4/3 sentences, simulated)"


def test_merged_types():
    merged = [merge(tag) for tag in ("O", "B-person", "I-group", "B-corporation", "I-product")]
    assert merged == ["O", "B-PER", "I-ORG", "B-ORG", "I-MISC"]
