"""Folds: what each scheme promises, and what is refused."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

from acvlib import Folds, folds

HOLES = np.array([True, False, True, True, True, False, True, True, True, True])


def rng(seed=0):
    return np.random.default_rng(seed)


def test_leave_one_out_takes_every_observed_site_once():
    assert_array_equal(np.concatenate(folds.leave_one_out(10, HOLES)), np.flatnonzero(HOLES))
    assert [len(fold) for fold in folds.leave_one_out(4)] == [1, 1, 1, 1]


@given(st.integers(2, 60), st.data(), st.booleans())
def test_k_fold_is_a_partition_into_nearly_equal_parts(n_sites, data, shuffled):
    k = data.draw(st.integers(2, n_sites))
    parts = folds.k_fold(n_sites, k, rng() if shuffled else None)
    sizes = [len(part) for part in parts]
    assert len(parts) == k
    assert max(sizes) - min(sizes) <= 1
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n_sites))


def test_k_fold_is_contiguous_unless_shuffled_and_skips_missing_sites():
    assert_array_equal(np.concatenate(folds.k_fold(10, 4, observed=HOLES)), np.flatnonzero(HOLES))
    assert not np.array_equal(np.concatenate(folds.k_fold(50, 5, rng())), np.arange(50))


@pytest.mark.parametrize("k", [-1, 0, 1, 9])
def test_k_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match=f"k = {k} folds of 8 sites"):
        folds.k_fold(10, k, observed=HOLES)


@pytest.mark.parametrize("percent", range(1, 100))
def test_iid_leaves_out_the_percentage_asked_for(percent):
    (fold,) = folds.iid(100, percent, 1, rng())
    assert len(np.unique(fold)) == percent


def test_iid_draws_sorted_observed_sites():
    drawn = folds.iid(10, 50, 40, rng(), HOLES)
    assert len(drawn) == 40
    assert {len(fold) for fold in drawn} == {4}  # half of the eight observed sites
    assert all((np.diff(fold) > 0).all() and HOLES[fold].all() for fold in drawn)
    assert_array_equal(np.unique(np.concatenate(drawn)), np.flatnonzero(HOLES))


@pytest.mark.parametrize("percent", range(1, 100))
def test_contiguous_blocks_have_floor_of_percent_plus_one_sites(percent):
    (fold,) = folds.contiguous(100, percent, 1, rng())
    assert_array_equal(fold, np.arange(fold[0], fold[0] + percent + 1))


def test_contiguous_blocks_start_uniformly_and_reach_both_ends():
    starts = np.array([fold[0] for fold in folds.contiguous(20, 10, 4000, rng())])
    counts = np.bincount(starts, minlength=18)
    assert len(counts) == 18
    assert abs(counts - 4000 / 18).max() < 5 * np.sqrt(4000 / 18)


def test_contiguous_blocks_lose_their_missing_sites_and_are_never_empty():
    holes = np.ones(40, bool)
    holes[5:30] = False
    drawn = folds.contiguous(40, 10, 200, rng(), holes)
    assert len(drawn) == 200
    assert all(len(fold) and holes[fold].all() for fold in drawn)


@pytest.mark.parametrize("scheme", [folds.iid, folds.contiguous])
@pytest.mark.parametrize("percent", [-5, 0, 100, 150, float("nan")])
def test_percent_outside_0_to_100_is_refused(scheme, percent):
    with pytest.raises(ValueError, match=f"percent = {percent}"):
        scheme(50, percent, 3, rng())


def test_a_percentage_of_less_than_one_site_is_refused():
    with pytest.raises(ValueError, match="less than one site"):
        folds.iid(50, 1, 3, rng())


@pytest.mark.parametrize("scheme", [folds.iid, folds.contiguous])
def test_nothing_observed_is_refused(scheme):
    with pytest.raises(ValueError, match="site"):
        scheme(10, 10, 3, rng(), np.zeros(10, bool))


@pytest.mark.parametrize("scheme", [folds.iid, folds.contiguous])
def test_the_same_seed_gives_the_same_folds(scheme):
    once, twice, other = (scheme(50, 10, 5, rng(seed)) for seed in (1, 1, 2))
    assert all(map(np.array_equal, once, twice))
    assert not all(map(np.array_equal, once, other))


def test_leave_future_out_takes_the_observed_future():
    past, nearer = folds.leave_future_out(10, [4, 8], observed=HOLES)
    assert_array_equal(past, [4, 6, 7, 8, 9])
    assert_array_equal(nearer, [8, 9])


@pytest.mark.parametrize("start", [-1, 0, 10, 12])
def test_a_future_that_is_everything_or_nothing_is_refused(start):
    with pytest.raises(ValueError, match="fold 0"):
        folds.Folds.of(folds.leave_future_out(10, [start]), 10)


@pytest.mark.parametrize(
    "splitter", [KFold(4), TimeSeriesSplit(3), GroupKFold(3)], ids=lambda s: type(s).__name__
)
def test_any_scikit_learn_splitter_omits_what_it_does_not_train_on(splitter):
    x, groups = np.zeros((12, 1)), np.repeat([0, 1, 2], 4)
    groups = groups if isinstance(splitter, GroupKFold) else None
    tests = [test for _, test in splitter.split(x, None, groups)]
    ours = folds.Folds.of(folds.from_splitter(splitter, x, groups=groups), 12)
    trains = [train for train, _ in splitter.split(x, None, groups)]
    assert all(map(np.array_equal, ours.scored, tests))
    assert [sorted({*range(12)} - {*train}) for train in trains] == [sorted(f) for f in ours]


@given(st.integers(2, 30), st.data())
def test_weights_and_indicator_say_the_same_of_any_folds(n_sites, data):
    sets = st.sets(st.integers(0, n_sites - 1), min_size=1, max_size=n_sites - 1)
    drawn = [np.array(list(fold)) for fold in data.draw(st.lists(sets, min_size=1, max_size=5))]
    checked = folds.Folds.of(drawn, n_sites)
    rows = np.stack([folds.weights(n_sites, fold) for fold in checked])
    assert_array_equal(1.0 - checked.indicator(n_sites).toarray(), rows)
    assert_array_equal(rows.sum(axis=1), [n_sites - len(fold) for fold in drawn])


BAD_FOLDS = {
    "none": ([], "no folds"),
    "empty": ([[0], []], "fold 1 is not a non-empty"),
    "negative": ([[0], [2], [-1, 2]], "fold 2 holds site -1"),
    "too large": ([[3, 10]], r"site 10, outside 0 \.\.\. 9"),
    "repeated": ([[0, 4, 4]], "fold 0 holds site 4 more than once"),
    "repeated, unsorted": ([[4, 0, 4]], "fold 0 holds site 4 more than once"),
    "fractions": ([[0.5, 1.0]], "fold 0 is not"),
    "whole floats": ([[0.0, 1.0]], "fold 0 is not"),
    "mask": ([HOLES], "fold 0 is not"),
    "strings": ([["a"]], "fold 0 is not"),
    "table": ([[[0, 1], [2, 3]]], "fold 0 is not"),
    "missing site": ([[0], [0, 5]], "fold 1 holds site 5, which is missing"),
    "everything": ([np.flatnonzero(HOLES)], "fold 0 leaves out all 8 observed sites"),
}


@pytest.mark.parametrize(("bad", "message"), BAD_FOLDS.values(), ids=BAD_FOLDS.keys())
def test_bad_folds_are_refused_with_their_number_and_site(bad, message):
    with pytest.raises(ValueError, match=message):
        folds.Folds.of(bad, 10, HOLES)


def test_leave_one_out_is_a_table_that_is_checked_whole():
    table = folds.leave_one_out(10, HOLES)
    assert table.table.shape == (8, 1)
    assert folds.Folds.of(table, 10, HOLES) is table
    assert_array_equal(table.sizes, np.ones(8))


@pytest.mark.parametrize(
    "name", ["negative", "too large", "repeated", "fractions", "missing site", "everything"]
)
def test_a_bad_table_is_refused_as_its_rows_are(name):
    bad, message = BAD_FOLDS[name]
    table = np.array([fold for fold in bad if len(fold) == len(bad[-1])])
    message = re.sub(r"fold \d (is not)", r"folds? (0 )?is not", message)
    with pytest.raises(ValueError, match=re.sub(r"fold \d", "fold 0", message)):
        folds.Folds.of(table, 10, HOLES)


def test_an_unsorted_table_keeps_its_order():
    assert_array_equal(folds.Folds.of(np.array([[7, 2], [2, 4]]), 10, HOLES)[0], [7, 2])


def test_observed_flags_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match=r"\(10,\), not \(12,\)"):
        folds.Folds.of([[0]], 12, HOLES)


def test_unsorted_folds_keep_their_order():
    assert_array_equal(folds.Folds.of([[7, 2, 4]], 10, HOLES)[0], [7, 2, 4])


def test_by_class_leaves_out_whole_classes():
    classes = np.repeat([3, 5, 7, 9, 11], 4)
    parts = folds.by_class(classes, 2, np.random.default_rng(0))
    assert sorted(np.concatenate(parts)) == list(range(20))
    assert [len(set(classes[part])) for part in parts] == [2, 2, 1]
    with pytest.raises(ValueError, match="per_fold = 5 of 5 classes"):
        folds.by_class(classes, 5, np.random.default_rng(0))


def test_a_fold_is_scored_where_it_says_and_only_there():
    gapped = folds.Folds([np.array([7, 2, 4]), np.array([1, 9])], [np.array([4, 7]), np.array([9])])
    picked = gapped.pick([np.array([0.7, 0.2, 0.4]), np.array([0.1, 0.9])])
    assert_array_equal(picked[0], [0.4, 0.7])
    assert_array_equal(picked[1], [0.9])
    assert_array_equal(gapped.sizes, [3, 2])
    assert gapped[1:].same_as(folds.Folds([[1, 9]], [[9]]))
    assert not gapped.same_as(folds.Folds(gapped.omitted))


def test_a_scored_site_that_is_not_omitted_is_refused():
    with pytest.raises(ValueError, match="fold 1 scores site 3, which it does not omit"):
        folds.Folds([[0, 1], [2, 4]], [[0], [3, 4]])
    with pytest.raises(ValueError, match="2 folds are omitted, 1 are scored"):
        folds.Folds([[0, 1], [2, 4]], [[0]])


@pytest.mark.parametrize("bad", [np.array([0, 1, 1, 0]), {"a": [0, 1]}, "01"])
def test_labels_and_mappings_are_not_taken_for_folds(bad):
    with pytest.raises(ValueError, match="folds must be a sequence of integer arrays"):
        folds.Folds(bad)


def test_repeated_unsigned_sites_are_seen():
    with pytest.raises(ValueError, match="site 4 more than once"):
        folds.Folds.of([np.array([9, 4, 4], np.uint8)], 10)


def test_folds_index_and_iterate_as_a_list_of_arrays():
    parts = folds.k_fold(10, 3)
    assert len(parts) == 3
    assert_array_equal(parts[0], np.arange(4))
    assert all(map(np.array_equal, parts, parts.omitted))
    assert isinstance(parts[:2], folds.Folds)
    assert_array_equal(parts[np.array([2, 0])][1], parts[0])
    assert_array_equal(parts[np.array([False, True, False])][0], parts[1])


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: folds.k_fold(20, 4, rng),
        lambda rng: folds.iid(20, 20, 3, rng),
        lambda rng: folds.contiguous(20, 20, 3, rng),
        lambda rng: folds.by_class(np.arange(20) // 4, 2, rng),
    ],
)
def test_a_seed_stands_for_its_generator(draw):
    assert draw(0).same_as(draw(np.random.default_rng(0)))
    with pytest.raises(ValueError, match="rng = '0': pass"):
        draw("0")


def test_folds_are_not_drawn_without_a_seed():
    with pytest.raises(ValueError, match="rng = None: pass numpy.random.default_rng"):
        folds.iid(20, 20, 3, None)


@pytest.mark.parametrize(
    "made",
    [
        folds.leave_one_out(20),
        folds.k_fold(20, 4),
        folds.blocked(20, 4, 1),
        folds.leave_future_out(20, [10], 2),
        folds.leave_group_out(np.repeat([1, 2], 10)),
        folds.by_class(np.repeat([1, 2], 10), 1, 0),
        folds.iid(20, 10, 2, 0),
        folds.contiguous(20, 10, 2, 0),
        folds.from_splitter(4, np.zeros(20)),
    ],
)
def test_folds_know_for_how_many_sites_they_were_made(made):
    assert Folds.of(made, 20) is made
    with pytest.raises(
        ValueError, match="made for 20 sites, and the model has 2,744.*n_sites=2744"
    ):
        Folds.of(made, 2744)
    with pytest.raises(ValueError, match="made for 20 sites"):
        Folds.of(made[:1], 2744)


def test_folds_of_groups_have_their_names():
    made = folds.leave_group_out(["b", "a", "b"])
    assert made.labels.tolist() == ["a", "b"]
    assert made[[1]].labels.tolist() == ["b"]
    assert folds.leave_group_out([10, 9, 10]).labels.tolist() == [9, 10]
    with pytest.raises(ValueError, match="3 labels of 2 folds"):
        Folds([[0], [1]], labels="abc")


@dataclass
class Steps:
    n_sites: int = 12
    sites: str = "steps"
    observed: Any = None


def test_folds_know_the_sites_of_the_model_that_they_were_made_of():
    missing = np.arange(12) != 3
    made = folds.k_fold(Steps(observed=missing), 3)
    assert (made.n_sites, made.sites) == (12, "steps")
    assert 3 not in np.concatenate(list(made))
    assert folds.Folds.of(made[:2], Steps()).sites == "steps"


@pytest.mark.parametrize(
    "make",
    [
        folds.leave_one_out,
        lambda model: folds.k_fold(model, 3, 0),
        lambda model: folds.blocked(model, 3, 1),
        lambda model: folds.leave_future_out(model, [5]),
        lambda model: folds.iid(model, 30, 2, 0),
        lambda model: folds.contiguous(model, 30, 2, 0),
    ],
)
def test_folds_of_other_sites_are_refused_though_there_are_as_many(make):
    made = make(Steps(sites="sequences"))
    with pytest.raises(ValueError, match="leave out sequences, and the model steps: make them of"):
        folds.Folds.of(made, Steps())
    assert folds.Folds.of(make(12), Steps()) is not None  # numbers have no kind


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([10, 9, 10, 2], [2, 9, 10]),
        ([1, "1", 1, 2.5], [1, "1", 2.5]),
        ([("b", 1), ("a", 2), ("b", 1), ("a", 1)], [("a", 1), ("a", 2), ("b", 1)]),
        (np.array(["b", "a", "b", "c"]), ["a", "b", "c"]),
    ],
)
def test_groups_are_what_is_equal_under_their_own_names(labels, expected):
    made = folds.leave_group_out(labels)
    assert made.labels.tolist() == expected
    for label, sites in zip(expected, made, strict=True):
        assert all((labels[site] == label) == (site in sites) for site in range(4))


@pytest.mark.parametrize("labels", [[1, None, 2], [1.0, np.nan], [[1], [2]], "ab", {1: 2}, 3])
def test_labels_that_are_none_are_refused(labels):
    with pytest.raises(ValueError, match="labels of shape .* give one a site, none of them nan"):
        folds.leave_group_out(labels)
