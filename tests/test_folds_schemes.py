"""Laws that hold for every scheme of folds, and scikit-learn's splitters against real refits."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles.wrappers import raises
from scipy.sparse.csgraph import connected_components
from sklearn import model_selection as splitters
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, TimeSeriesSplit

import acvlib as acv
from acvlib import folds
from acvlib.folds import Folds
from acvlib.models import GLM

RNG = np.random.default_rng(3)
N = 24
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.5] + np.sin(np.arange(N)) + RNG.normal(size=N)
CLASSES = np.arange(N) % 2
GROUPS = np.repeat(np.arange(6), 4)
HOLES = np.array([True, False, True, True, True, False, True, True, True, True])
PAIRS = [(np.arange(4, 20), np.array([22, 1, 3])), (list(range(12)), [15, 16]), (range(9), (23,))]
CVS = [
    KFold(4, shuffle=True, random_state=0),
    TimeSeriesSplit(3, test_size=2),
    TimeSeriesSplit(3, max_train_size=8, gap=1),
    GroupKFold(3),
    LeaveOneGroupOut(),
    splitters.LeavePOut(2),
    splitters.RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    splitters.ShuffleSplit(3, train_size=0.5, test_size=0.2, random_state=0),
    splitters.StratifiedKFold(3),
    splitters.PredefinedSplit(np.where(np.arange(N) < 9, -1, np.arange(N) % 3)),
    PAIRS,
]


@pytest.mark.parametrize("cv", CVS, ids=lambda cv: str(cv)[:60])
def test_exact_over_a_splitter_is_its_own_training_sets_refitted(cv):
    groups = GROUPS if isinstance(cv, GroupKFold | LeaveOneGroupOut) else None
    pairs = list(cv.split(X, CLASSES, groups) if hasattr(cv, "split") else cv)
    ours = Folds.of(folds.from_splitter(cv, X, CLASSES, groups), N)
    result = acv.exact(acv.fit(GLM(X, Y, "gaussian", penalty=0.7, intercept=False)), ours)
    assert len(ours) == len(pairs)
    for number, (train, test) in enumerate(pairs):
        assert_array_equal(np.sort(ours.omitted[number]), np.setdiff1d(np.arange(N), train))
        assert_array_equal(ours.scored[number], test)
        train, test = list(train), list(test)
        refit = Ridge(0.7, fit_intercept=False).fit(X[train], Y[train])
        squares = (Y[test] - refit.predict(X[test])) ** 2
        expected = 0.5 * squares + 0.5 * np.log(2 * np.pi)
        assert_allclose(result.losses[number], expected, rtol=1e-6)


def test_a_splitter_over_missing_sites_leaves_them_out_of_every_fold():
    observed = np.arange(N) % 5 != 0
    cv = TimeSeriesSplit(3, gap=2)
    ours = Folds.of(folds.from_splitter(cv, X, observed=observed), N, observed)
    for (train, test), omitted, scored in zip(cv.split(X), ours.omitted, ours.scored, strict=True):
        assert_array_equal(omitted, np.setdiff1d(np.flatnonzero(observed), train))
        assert_array_equal(scored, test[observed[test]])
    pairs = folds.from_splitter(splitters.LeavePOut(2), X[:7], observed=observed[:7])
    assert len(pairs) == 20  # not (0, 5)
    raises("what was given is the class KFold", folds.from_splitter, KFold, X, error=TypeError)


BAD_SPLITS = {
    "repeated": ([([0, 0, 1], [5])], "split 0: a training set repeats a row or shares one"),
    "shared": ([([0, 1], [5]), ([0, 1], [1])], "split 1: a training set repeats a row or shares"),
    "mask": ([(np.arange(N) < 9, np.arange(N) > 9)], "the set of sites is not"),
    "outside": ([([0, 99], [5])], "holds site 99"),
    "test outside": ([([0], [5]), ([0], [24])], "the test set of split 1 holds site 24, outside"),
    "everything": ([([], [5])], "leaves out all 24"),
    "a number": (5, "split 0 must be a pair.*k_fold"),
}


@pytest.mark.parametrize(("cv", "message"), BAD_SPLITS.values(), ids=BAD_SPLITS.keys())
def test_splits_that_cannot_be_read_in_one_way_are_refused(cv, message):
    raises(message, lambda: Folds.of(folds.from_splitter(cv, X), N))


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
    classes = np.arange(n_sites) % 4
    shuffled = folds.k_fold(n_sites, k, rng, observed)
    by_class = folds.leave_group_out(classes, observed=observed, per_fold=2, rng=rng)
    iid = folds.iid(n_sites, 30, 5, rng, observed)
    by_site = [folds.leave_one_out(n_sites, observed), folds.k_fold(n_sites, k, observed=observed)]
    by_label = folds.leave_group_out(classes, observed=observed)
    partitions = [*by_site, shuffled, by_class, by_label]
    for each in [*partitions, iid]:
        sound(each, n_sites, observed)
    for each in partitions:
        assert_array_equal(np.sort(np.concatenate(each.scored)), np.flatnonzero(observed))
    for each in partitions[:3]:
        assert max(each.sizes) - min(each.sizes) <= 1
    assert [len(set(classes[part])) for part in by_class] == [2, 2]
    assert set(iid.sizes) == {int(0.3 * observed.sum())}
    assert all((np.diff(fold) > 0).all() for fold in iid)


@given(st.lists(st.integers(1, 12), max_size=3), st.integers(3, 40), st.data())
def test_all_sequences_lose_their_future_from_the_gap_on_and_score_to_the_horizon(more, n, data):
    gap = data.draw(st.integers(0, n - 2))
    start = data.draw(st.integers(gap + 1, n - 1))
    horizon = data.draw(st.none() | st.integers(1, n - start))
    lengths = [*more, n]
    ages = np.concatenate([np.arange(length) for length in lengths])
    known = lengths if more else None
    drawn = folds.leave_future_out(len(ages), [start], horizon, gap, lengths=known)
    end = max(lengths) if horizon is None else start + horizon
    assert_array_equal(drawn.omitted[0], np.flatnonzero(ages >= start - gap))
    assert_array_equal(drawn.scored[0], np.flatnonzero((ages >= start) & (ages < end)))
    sound(drawn, len(ages), np.ones(len(ages), bool))


def test_of_the_future_and_on_maps_what_is_observed_is_left_out():
    past, nearer = folds.leave_future_out(10, [4, 8], observed=HOLES)
    assert_array_equal(past, [4, 6, 7, 8, 9])
    assert_array_equal(nearer, [8, 9])
    with pytest.raises(ValueError, match="fold 0 scores no site"):
        Folds.of(folds.leave_future_out(10, [5], 1, observed=HOLES), 10, HOLES)
    model = GLM(X[:10], Y[:10], "gaussian", sample_weight=HOLES)
    balls = [ball.tolist() for ball in folds.balls(model, np.c_[:9, 1:10], 1)]
    assert balls == [[0], [2, 3], [2, 3, 4], [3, 4], [6, 7], [6, 7, 8], [7, 8, 9], [8, 9]]
    regions = np.sort(np.concatenate(folds.regions(model, np.c_[:9, 1:10], 3, 0)))
    assert_array_equal(regions, np.flatnonzero(HOLES))


FUTURE = partial(folds.leave_future_out, 10)
REFUSED = [  # tests/attack has labels that are none, and tests/test_folds.py loops
    (lambda: FUTURE([5, 10]), "fold 1 starts at site 10: must be from 1 to 9"),
    (lambda: FUTURE([3], gap=3), "fold 0 starts at site 3: must be from 4 to 9"),
    (lambda: FUTURE([8.0]), "starts must be whole numbers, 1-d, but float64"),
    (lambda: FUTURE([8], horizon=3), "fold 0 starts at site 8: must be from 1 to 7"),
    (lambda: FUTURE([5], lengths=[4, 5]), r"lengths \[4, 5\] must be above 0 and sum to 10 sites"),
    (lambda: folds.k_fold(10, 9, observed=HOLES), "must be"),
    (lambda: folds.iid(50, 1, 3, RNG), "less than one site"),
    (lambda: folds.leave_group_out([1, 1, 1]), "one group"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_folds_that_are_none_are_refused(call, message):
    raises(message, call)


@given(series(), st.integers(1, 90), st.integers(0, 99))
def test_contiguous_blocks_are_the_observed_part_of_a_window(case, percent, seed):
    n_sites, observed = case
    length = int(percent * n_sites / 100)
    for fold in folds.contiguous(n_sites, percent, 8, np.random.default_rng(seed), observed):
        windows = [np.arange(t - length, t + 1) for t in range(length, n_sites)]
        assert any(np.array_equal(fold, w[observed[w]]) for w in windows)
        assert len(fold)


def test_contiguous_blocks_start_uniformly_reach_both_ends_and_are_of_the_percentage_asked_for():
    starts = np.array([fold[0] for fold in folds.contiguous(20, 10, 4000, RNG)])
    counts = np.bincount(starts, minlength=18)
    assert len(counts) == 18
    assert abs(counts - 4000 / 18).max() < 5 * np.sqrt(4000 / 18)
    for percent in (1, 29, 57, 99):  # .29 * 100 is less than 29
        assert folds.iid(100, percent, 1, 0).sizes == [percent]
        assert folds.contiguous(100, percent, 1, 0).sizes == [percent + 1]


# maps

GRID = [(i, i + 1) for i in range(30) if i % 6 != 5] + [(i, i + 6) for i in range(24)]  # 5 x 6
GRID_ROW, GRID_COLUMN = np.divmod(np.arange(30), 6)
APART = abs(GRID_ROW[:, None] - GRID_ROW) + abs(GRID_COLUMN[:, None] - GRID_COLUMN)


@settings(max_examples=30)
@given(k=st.integers(2, 12), seed=st.integers(0, 10**6))
def test_regions_are_a_partition_into_connected_blocks(k, seed):
    blocks = folds.regions(30, GRID, k, np.random.default_rng(seed))
    assert len(blocks) == k
    assert sorted(np.concatenate(blocks)) == list(range(30))
    for block in blocks:
        assert connected_components(APART[np.ix_(block, block)] == 1)[0] == 1


@settings(max_examples=30)
@given(st.data())
def test_balls_and_regions_of_any_graph_are_sound(data):
    """Islands, several parts and loops: distances by brute force, every site in one region."""
    n = data.draw(st.integers(3, 12))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1])
    edges = sorted(data.draw(st.sets(pairs, max_size=15)))
    radius, k = data.draw(st.integers(0, 3)), data.draw(st.integers(2, n))
    step = np.eye(n, dtype=int)
    for a, b in edges:
        step[a, b] = step[b, a] = 1
    near = np.linalg.matrix_power(step, radius) > 0
    if near.all(axis=1).any():
        raises(f"all {n} sites lie that close", folds.balls, n, edges, radius)
    else:
        balls = folds.balls(n, edges, radius, centres_alone=True)
        assert all(map(np.array_equal, balls, map(np.flatnonzero, near)))
        assert np.array_equal(np.concatenate(balls.scored), np.arange(n))
        assert folds.balls(n, edges, radius).same_as(Folds(balls.omitted))
    blocks = folds.regions(n, edges, k, np.random.default_rng(0))
    assert sorted(np.concatenate(blocks)) == list(range(n))
    assert min(blocks.sizes) > 0
