"""Laws that hold for every scheme of folds, and scikit-learn's splitters against real refits."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeavePOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

import acvlib as acv
from acvlib import folds, spatial_folds
from acvlib.folds import Folds
from acvlib.models import GLM

RNG = np.random.default_rng(3)
N = 24
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.5] + np.sin(np.arange(N)) + RNG.normal(size=N)
CLASSES = np.arange(N) % 2
GROUPS = np.repeat(np.arange(6), 4)
PREDEFINED = PredefinedSplit(np.where(np.arange(N) < 9, -1, np.arange(N) % 3))
SPLITTERS = [
    KFold(4),
    KFold(4, shuffle=True, random_state=0),
    TimeSeriesSplit(3),
    TimeSeriesSplit(3, gap=2),
    TimeSeriesSplit(3, test_size=2),
    TimeSeriesSplit(3, max_train_size=8, gap=1),
    GroupKFold(3),
    LeaveOneGroupOut(),
    LeavePOut(2),
    RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    ShuffleSplit(3, random_state=0),
    ShuffleSplit(3, train_size=0.5, test_size=0.2, random_state=0),
    StratifiedKFold(3),
    PREDEFINED,
]
PAIRS = [(np.arange(4, 20), np.array([22, 1, 3])), (list(range(12)), [15, 16]), (range(9), (23,))]


def losses_by_fold(result):
    return result.losses


def groups_of(cv):
    return GROUPS if isinstance(cv, GroupKFold | LeaveOneGroupOut) else None


def pairs_of(cv):
    if hasattr(cv, "split"):
        return list(cv.split(X, CLASSES, groups_of(cv)))
    return list(KFold(cv).split(X)) if isinstance(cv, int) else list(cv)


@pytest.mark.parametrize("cv", [*SPLITTERS, PAIRS, 5], ids=lambda cv: str(cv)[:60])
def test_exact_over_a_splitter_is_its_own_training_sets_refitted(cv):
    model = GLM(X, Y, "gaussian", penalty=0.7, intercept=False)
    ours = folds.from_splitter(cv, X, CLASSES, groups_of(cv))
    result = acv.exact(acv.fit(model), ours)
    for (train, test), losses in zip(pairs_of(cv), losses_by_fold(result), strict=True):
        train, test = list(train), list(test)
        refit = Ridge(0.7, fit_intercept=False).fit(X[train], Y[train])
        squares = (Y[test] - refit.predict(X[test])) ** 2
        assert_allclose(losses, 0.5 * squares + 0.5 * np.log(2 * np.pi), rtol=1e-6)


@pytest.mark.parametrize("cv", [*SPLITTERS, PAIRS, 5], ids=lambda cv: str(cv)[:60])
def test_a_splitter_omits_all_but_its_training_sets_and_scores_its_test_sets(cv):
    ours = Folds.of(folds.from_splitter(cv, X, CLASSES, groups_of(cv)), N)
    pairs = pairs_of(cv)
    assert len(ours) == len(pairs)
    for (train, test), omitted, scored in zip(pairs, ours.omitted, ours.scored, strict=True):
        assert_array_equal(np.sort(omitted), np.setdiff1d(np.arange(N), train))
        assert_array_equal(scored, test)


def test_an_iterator_of_pairs_and_sparse_rows_are_taken():
    from scipy.sparse import csr_matrix

    ours = folds.from_splitter(iter(PAIRS), csr_matrix(X))
    assert ours.same_as(folds.from_splitter(PAIRS, X))


def test_a_splitter_over_missing_sites_leaves_them_out_of_every_fold():
    observed = np.arange(N) % 5 != 0
    ours = Folds.of(
        folds.from_splitter(TimeSeriesSplit(3, gap=2), X, observed=observed), N, observed
    )
    for (train, test), omitted, scored in zip(
        TimeSeriesSplit(3, gap=2).split(X), ours.omitted, ours.scored, strict=True
    ):
        assert_array_equal(omitted, np.setdiff1d(np.flatnonzero(observed), train))
        assert_array_equal(scored, test[observed[test]])


ROWS = np.arange(N)
BAD_SPLITS = {
    "repeated": ([([0, 0, 1], [5])], "split 0: a training set repeats a row or shares one"),
    "shared": ([([0, 1], [5]), ([0, 1], [1])], "split 1: a training set repeats a row or shares"),
    "mask": ([(ROWS < 9, ROWS > 9)], "the set of sites is not"),
    "test mask": ([(ROWS[:9], ROWS > 9)], "the test set is not"),
    "negative": ([([0, 1], [-1])], "holds site -1"),
    "negative train": ([([-1, 1], [5])], "holds site -1"),
    "outside": ([([0, 99], [5])], "holds site 99"),
    "test repeated": ([([0, 1], [5, 5])], "site 5 more than once"),
    "everything": ([([], [5])], "leaves out all 24"),
    "no test": ([([1], [])], "fold 0 scores no site"),
    "labels": (CLASSES, "split 0 must be a pair"),
    "folds": ([[0, 1, 2], [3, 4, 5]], "split 0 must be a pair"),
    "one fold": (1, "k = 1 folds of 24 sites"),
    "too many": (25, "k = 25 folds of 24 sites"),
}


@pytest.mark.parametrize(("cv", "message"), BAD_SPLITS.values(), ids=BAD_SPLITS.keys())
def test_splits_that_cannot_be_read_in_one_way_are_refused(cv, message):
    with pytest.raises(ValueError, match=message):
        Folds.of(folds.from_splitter(cv, X), N)


@pytest.mark.parametrize("cv", [None, 2.5, "kfold"])
def test_what_is_no_splitter_is_refused(cv):
    with pytest.raises((TypeError, ValueError)):
        folds.from_splitter(cv, X)


def test_a_test_set_beyond_the_rows_is_refused():
    with pytest.raises((IndexError, ValueError), match="99"):
        folds.from_splitter([([0, 1], [99])], X)


# laws of schemes


@st.composite
def series(draw):
    """(n_sites, observed with at least four True)."""
    n_sites = draw(st.integers(6, 50))
    observed = np.array(draw(st.lists(st.booleans(), min_size=n_sites, max_size=n_sites)))
    observed[:4] = True
    return n_sites, observed


def sound(drawn, n_sites, observed):
    """Checked by brute force, not by the library: the sites of all folds, as sets."""
    for omitted, scored in zip(drawn.omitted, drawn.scored, strict=True):
        assert 0 < len(set(scored)) == len(scored)
        assert len(set(omitted)) == len(omitted) < observed.sum()
        assert set(scored) <= set(omitted) <= set(np.flatnonzero(observed))
    assert Folds.of(drawn, n_sites, observed) is drawn


@given(series(), st.data())
def test_every_scheme_gives_sound_folds(case, data):
    n_sites, observed = case
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    k = data.draw(st.integers(2, 4))
    drawn = [
        folds.leave_one_out(n_sites, observed),
        folds.k_fold(n_sites, k, observed=observed),
        folds.k_fold(n_sites, k, rng, observed),
        folds.blocked(n_sites, k, observed=observed),
        folds.by_class(np.arange(n_sites) % 4, 2, rng, observed),
        folds.iid(n_sites, 30, 5, rng, observed),
        folds.from_splitter(k, np.zeros(n_sites)),
    ]
    for each in drawn[:-1]:
        sound(each, n_sites, observed)
    sound(drawn[-1], n_sites, np.ones(n_sites, bool))
    for each in drawn[:5]:  # partitions
        assert_array_equal(np.sort(np.concatenate(each.scored)), np.flatnonzero(observed))


@given(series(), st.integers(2, 4), st.integers(0, 60))
def test_blocks_are_omitted_with_their_buffers_and_scored_without(case, k, buffer):
    n_sites, observed = case
    drawn = folds.blocked(n_sites, k, buffer, observed)
    blocks = folds.k_fold(n_sites, k, observed=observed)
    for block, omitted, scored in zip(blocks, drawn.omitted, drawn.scored, strict=True):
        near = [t for t in range(n_sites) if block[0] - buffer <= t <= block[-1] + buffer]
        assert_array_equal(scored, block)
        assert_array_equal(omitted, [t for t in near if observed[t]])


@given(st.integers(3, 40), st.data())
def test_the_future_starts_after_the_gap_and_ends_at_the_horizon(n_sites, data):
    gap = data.draw(st.integers(0, n_sites - 2))
    start = data.draw(st.integers(gap + 1, n_sites - 1))
    horizon = data.draw(st.none() | st.integers(1, n_sites - start))
    (omitted,) = folds.leave_future_out(n_sites, [start], horizon, gap)
    drawn = folds.leave_future_out(n_sites, [start], horizon, gap)
    end = n_sites if horizon is None else start + horizon
    assert_array_equal(omitted, np.arange(start - gap, n_sites))
    assert_array_equal(drawn.scored[0], np.arange(start, end))
    sound(drawn, n_sites, np.ones(n_sites, bool))


@pytest.mark.parametrize(
    ("starts", "settings_", "message"),
    [
        ([5, 10], {}, "fold 1 starts at site 10: must be from 1 to 9"),
        ([-3], {}, "fold 0 starts at site -3"),
        ([3], {"gap": 3}, "fold 0 starts at site 3: must be from 4 to 9"),
        ([8], {"horizon": 3}, "fold 0 starts at site 8: must be from 1 to 7"),
        ([5], {"horizon": 0}, "horizon = 0"),
        ([5], {"gap": -1}, "gap = -1"),
        ([5], {"gap": 1.5}, "gap = 1.5"),
        (5, {}, "starts is not"),
        ([5.0], {}, "starts is not"),
        (np.arange(10) > 5, {}, "starts is not"),
        ([10**30], {}, "starts is not"),
        ([5], {"horizon": np.ones(10, bool)}, "horizon ="),  # observed, in the old place
    ],
)
def test_futures_that_are_none_are_refused(starts, settings_, message):
    with pytest.raises(ValueError, match=message):
        folds.leave_future_out(10, starts, **settings_)


def test_an_unobserved_horizon_is_refused():
    observed = np.arange(10) != 5
    with pytest.raises(ValueError, match="fold 0 scores no site"):
        Folds.of(folds.leave_future_out(10, [5], 1, observed=observed), 10, observed)


@given(series(), st.integers(1, 90), st.integers(0, 99))
def test_contiguous_blocks_are_the_observed_part_of_a_window(case, percent, seed):
    n_sites, observed = case
    length = int(percent * n_sites / 100)
    for fold in folds.contiguous(n_sites, percent, 8, np.random.default_rng(seed), observed):
        windows = [np.arange(t - length, t + 1) for t in range(length, n_sites)]
        assert any(np.array_equal(fold, w[observed[w]]) for w in windows)
        assert len(fold)


def test_one_observed_site_of_a_million_is_found_at_once():
    observed = np.zeros(10**6, bool)
    observed[777_777] = True
    started = time.perf_counter()
    drawn = folds.contiguous(10**6, 0.001, 50, np.random.default_rng(0), observed)
    assert time.perf_counter() - started < 2.0
    assert all(list(fold) == [777_777] for fold in drawn)


def test_without_long_gaps_blocks_are_drawn_as_ever():
    """The first edition drew the last site of each block, uniform, one after the other."""
    rng = np.random.default_rng(4)
    expected = [int(rng.integers(5, 100)) for _ in range(20)]
    drawn = folds.contiguous(100, 5, 20, np.random.default_rng(4))
    assert [fold[-1] for fold in drawn] == expected


SCHEMES = {
    "n_sites": lambda: folds.leave_one_out(-1),
    "fractional n_sites": lambda: folds.k_fold(10.0, 2),
    "k": lambda: folds.k_fold(10, 2.5),
    "buffer": lambda: folds.blocked(10, 2, -1),
    "buffer of a half": lambda: folds.blocked(10, 2, 0.5),
    "n_folds": lambda: folds.iid(10, 20, 0, RNG),
    "n_folds, contiguous": lambda: folds.contiguous(10, 20, 2.5, RNG),
    "rng": lambda: folds.k_fold(10, 2, "0"),
    "rng None": lambda: folds.iid(10, 20, 3, None),
    "rng, contiguous": lambda: folds.contiguous(10, 20, 3, np.random),
    "rng, bootstrap": lambda: folds.bootstrap_weights(10, 3, 0.5),
    "n_sites, bootstrap": lambda: folds.bootstrap_weights(0, 3, RNG),
    "observed numbers": lambda: folds.leave_one_out(4, [3, 0, 1, 2]),
    "observed nan": lambda: folds.leave_one_out(3, [1.0, np.nan, 0.0]),
    "classes": lambda: folds.by_class(np.zeros((4, 2)), 1, RNG),
    "classes nan": lambda: folds.by_class([1.0, np.nan, 2.0, 3.0], 1, RNG),
    "per_fold": lambda: folds.by_class([1, 2, 3], 1.5, RNG),
    "regions": lambda: spatial_folds.regions(4, [(0, 1)], 2.5, RNG),
    "regions rng": lambda: spatial_folds.regions(4, [(0, 1)], 2, None),
    "regions buffer": lambda: spatial_folds.regions(4, [(0, 1)], 2, RNG, -1),
    "radius": lambda: spatial_folds.balls(4, [(0, 1)], -1),
    "radius nan": lambda: spatial_folds.buffered(4, [(0, 1)], float("nan")),
    "graph": lambda: spatial_folds.distances(0, []),
}


@pytest.mark.parametrize("call", SCHEMES.values(), ids=SCHEMES.keys())
def test_arguments_out_of_range_are_refused_with_their_value(call):
    with pytest.raises(ValueError, match="must be|rng =|classes of shape"):
        call()


# laws of any folds


@settings(max_examples=50)
@given(st.data())
def test_picking_and_selecting_keep_each_fold_together(data):
    n_sites = data.draw(st.integers(2, 20))
    sets = st.lists(st.integers(0, n_sites - 1), min_size=1, max_size=n_sites, unique=True)
    omitted = data.draw(st.lists(sets, min_size=1, max_size=6))
    scored = [data.draw(st.permutations(fold)) for fold in omitted]
    scored = [part[: data.draw(st.integers(1, len(part)))] for part in scored]
    drawn = Folds(omitted, scored)
    order = np.array(data.draw(st.permutations(range(len(omitted)))))
    losses = [np.sqrt(fold) for fold in drawn]
    for ours, sites in zip(drawn.pick(losses), scored, strict=True):
        assert_array_equal(ours, np.sqrt(sites))
    for ours, sites in zip(drawn.split(np.concatenate(drawn.scored)), scored, strict=True):
        assert_array_equal(ours, sites)
    moved = drawn[order]
    assert moved.same_as(Folds([omitted[i] for i in order], [scored[i] for i in order]))
    assert_array_equal(
        moved.indicator(n_sites).toarray(), drawn.indicator(n_sites).toarray()[order]
    )


def test_groups_are_left_out_whole():
    labels = np.array(["b", "a", "b", "c", "a"])
    found = folds.leave_group_out(labels)
    assert [fold.tolist() for fold in found] == [[1, 4], [0, 2], [3]]
    observed = np.array([True, True, False, True, True])
    found = folds.leave_group_out(labels, observed=observed)
    assert [fold.tolist() for fold in found] == [[1, 4], [0], [3]]


def test_groups_of_sequences_are_left_out_with_all_their_steps():
    found = folds.leave_group_out([7, 3, 7], lengths=[2, 1, 3])  # two sessions of individual 7
    assert [fold.tolist() for fold in found] == [[2], [0, 1, 3, 4, 5]]


@pytest.mark.parametrize(
    ("labels", "lengths", "message"),
    [
        ([1, 1, 1], None, "one group, .*1.*, has all sites"),
        ([1.0, np.nan], None, "labels of shape .* none of them nan"),
        ([1, 2], [3], "1 lengths of 2 labels"),
        ([1, 2], [3, 0], "one above 0 for each"),
        ([[1], [2]], None, "labels of shape"),
    ],
)
def test_bad_groups_are_named(labels, lengths, message):
    with pytest.raises(ValueError, match=message):
        folds.leave_group_out(labels, lengths)
