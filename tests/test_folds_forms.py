"""What is taken for folds: each form in one reading, or refused with the remedy."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

from acvlib.folds import Folds, leave_one_out, weights

TWO = [[3, 1], [4, 0, 2]]
MASK = np.arange(10) < 3
GOOD = {
    "lists": TWO,
    "tuples": tuple(map(tuple, TWO)),
    "generator": (fold for fold in TWO),
    "dict's values": {"a": TWO[0], "b": TWO[1]}.values(),
    "unsigned": [np.array(fold, np.uint8) for fold in TWO],
    "unsigned, large": [np.array(fold, np.uint64) for fold in TWO],
    "big-endian": [np.array(fold, ">i4") for fold in TWO],
    "big-endian, unsigned": [np.array(fold, ">u8") for fold in TWO],
    "strided": [np.repeat(fold, 2)[::2] for fold in TWO],
    "series": [pd.Series(fold, index=np.arange(9, 9 + len(fold))) for fold in TWO],
    "array of arrays": np.array([np.array(fold) for fold in TWO], object),
}


@pytest.mark.parametrize("form", GOOD.values(), ids=GOOD.keys())
def test_forms_of_the_same_folds_are_the_same(form):
    assert Folds.of(form, 10).same_as(Folds(TWO))


@pytest.mark.parametrize("kind", ["i8", "u1", ">i2", ">u8"])
def test_a_table_has_a_fold_in_each_row(kind):
    table = np.array([[3, 1], [4, 0]], kind)
    assert Folds.of(table, 10).same_as(Folds([[3, 1], [4, 0]]))
    assert Folds(table).table.dtype == np.int64


BAD = {
    "labels": np.array([0, 1, 1, 0]),
    "labels in a list": [0, 1, 1, 0],
    "labels, unsigned": np.array([0, 1, 1, 0], np.uint8),
    "series of labels": pd.Series([0, 1, 1, 0]),
    "data frame": pd.DataFrame({"a": [0, 1], "b": [2, 3]}),
    "data frame, numbered": pd.DataFrame([[0, 1], [2, 3]]),
    "data frame, paired": pd.DataFrame(
        [[1, 2]], columns=pd.MultiIndex.from_tuples([(0, 1), (2, 3)])
    ),
    "dict": {0: [0, 1], 1: [2]},
    "dict, paired": {(0, 1): "a", (2, 3): "b"},
    "text": "01",
    "bytes": b"01",
    "masks": [MASK, ~MASK],
    "table of masks": np.array([MASK, ~MASK]),
    "floats": [[0.0, 1.0]],
    "table of floats": np.array([[0.0, 1.0]]),
    "missing": [[0, None]],
    "text in a fold": [["a"]],
    "nested": [([0, 1], [2, 3])],
    "ragged": [([0, 1], [2])],
    "cube": np.zeros((2, 2, 2), int),
    "huge": [[10**30]],
    "masked": [np.ma.array([0, 1], mask=[False, True])],
    "masked table": np.ma.array([[0, 1]], mask=[[False, True]]),
    "sparse": csr_matrix(np.eye(3, dtype=int)),
    "sets": [{0, 1}],
    "slices": [slice(0, 3)],
    "times": [np.array([0, 1], "m8[s]")],
    "unsigned, repeated": [np.array([9, 4, 4], np.uint8)],
    "repeated": [[0], [4, 1, 4]],
    "negative": [[0], [-1]],
    "negative, wrapped": [np.array([2**64 - 1], np.uint64)],
    "beyond any": [[2**62]],
}


@pytest.mark.parametrize("form", BAD.values(), ids=BAD.keys())
def test_what_can_be_read_in_two_ways_is_refused(form):
    with pytest.raises(ValueError, match="fold"):
        Folds(form)


@pytest.mark.parametrize(
    ("form", "remedy"),
    [
        ([MASK], r"np\.flatnonzero\(mask\)"),
        ([0, 1, 1], r"labels == a"),
        ([([0, 1], [2])], r"folds\.from_splitter"),
        ([np.ma.array([0, 1], mask=[False, True])], r"\.compressed\(\)"),
    ],
)
def test_the_refusal_names_the_remedy(form, remedy):
    with pytest.raises(ValueError, match=remedy):
        Folds(form)


def test_folds_are_not_taken_for_a_list_that_would_lose_what_they_score():
    with pytest.raises(ValueError, match="these are Folds already"):
        Folds(Folds(TWO, [[3], [0]]))


@pytest.mark.parametrize("bad", [5, 2.5, None, object()])
def test_what_is_no_sequence_is_refused(bad):
    with pytest.raises(ValueError, match="folds must be a sequence of integer arrays"):
        Folds(bad)


@pytest.mark.parametrize("sites", [[[10]], [[0], [3, 99]], [[2**39]]])
def test_an_indicator_of_too_few_sites_is_refused(sites):
    with pytest.raises(ValueError, match="outside 0 ... 9"):
        Folds(sites).indicator(10)


@pytest.mark.parametrize("sites", [[10], [-1], [0.0], MASK, [[1]], 3, "a"])
def test_weights_of_sites_that_are_none_are_refused(sites):
    with pytest.raises(ValueError, match="site"):
        weights(10, sites)


def test_folds_keep_copies():
    omitted = [np.array([0, 1, 2]), np.array([3, 4])]
    scored = [np.array([0]), np.array([4])]
    table = np.array([[0, 1], [2, 3]])
    held = [Folds(omitted, scored), Folds(table), Folds(table, table[:, :1])]
    before = [([*map(list, f.omitted)], [*map(list, f.scored)]) for f in held]
    for array in (*omitted, *scored, table):
        array += 5
    assert [([*map(list, f.omitted)], [*map(list, f.scored)]) for f in held] == before


def test_scoring_all_that_is_omitted_is_plain_cross_validation():
    both = Folds(TWO, [list(fold) for fold in TWO])
    assert both.scored is both.omitted


@pytest.mark.parametrize(
    ("scored", "message"),
    [
        ([[3], [1]], "fold 1 scores site 1, which it does not omit"),
        ([[3, 3], [4]], "fold 0 holds site 3 more than once"),
        ([[9], [4]], "fold 0 scores site 9"),
        ([[3]], "2 folds are omitted, 1 are scored"),
        ([MASK, [4]], "fold 0 is not"),
    ],
)
def test_scored_sites_are_checked_as_the_omitted_ones(scored, message):
    with pytest.raises(ValueError, match=message):
        Folds(TWO, scored)


def test_a_fold_that_scores_nothing_is_refused():
    with pytest.raises(ValueError, match="fold 1 scores no site"):
        Folds.of(Folds(TWO, [[3], []]), 10)


@given(st.data())
def test_folds_are_accepted_just_when_each_is_a_set_of_observed_sites_short_of_all(data):
    n_sites = data.draw(st.integers(1, 8))
    flags = st.lists(st.booleans(), min_size=n_sites, max_size=n_sites)
    observed = np.array(data.draw(flags))
    some = st.lists(st.integers(-1, n_sites), max_size=5)
    drawn = data.draw(st.lists(some, max_size=4))
    seen = set(np.flatnonzero(observed))
    right = bool(drawn) and all(
        0 < len(fold) == len(set(fold)) < len(seen) and set(fold) <= seen for fold in drawn
    )
    kind = data.draw(st.sampled_from([np.int64, np.int8, ">i4"]))
    arrays = [np.array(fold, kind) for fold in drawn]
    if right:
        assert_array_equal(np.concatenate(Folds.of(arrays, n_sites, observed)), sum(drawn, []))
    else:
        with pytest.raises(ValueError, match="fold"):
            Folds.of(arrays, n_sites, observed)


def test_ten_thousand_folds_are_checked_in_no_time():
    """A look at each fold took .25 s; end to end, .01 s."""
    singles = list(leave_one_out(10_000))
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        Folds.of(singles, 10_000)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.1


def test_parts_of_folds_keep_what_they_score():
    whole = Folds(TWO, [[3], [0, 4]])
    assert whole[1:].same_as(Folds(TWO[1:], [[0, 4]]))
    assert whole[[1, 0]].same_as(Folds(TWO[::-1], [[0, 4], [3]]))
    assert whole[[True, False]].same_as(Folds(TWO[:1], [[3]]))
    assert whole[::-1].pick([np.arange(3), np.arange(2)])[0].tolist() == [1, 0]
    with pytest.raises(IndexError):
        whole[[2]]
