"""Folds: each form in one reading or refused with the remedy, and what a part of them keeps."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import simulate_traffic
from oracles.wrappers import raises
from scipy.sparse import coo_array
from sklearn.model_selection import KFold

import acvlib as acv
from acvlib import folds
from acvlib.folds import Folds, balls, leave_future_out, weights
from acvlib.methods.ladder import METHODS
from acvlib.models import GLM, GaussianHMM, HiddenMRF, LinearChainCRF, PoissonTraffic, TrafficPrior
from acvlib.weighting import keep_latents

HOLES = np.array([True, False, True, True, True, False, True, True, True, True])
TWO = [[3, 1], [4, 0, 2]]
MASK = np.arange(10) < 3


@pytest.mark.parametrize("form", [{"a": TWO[0], "b": TWO[1]}.values(), (fold for fold in TWO)])
def test_forms_of_the_same_folds_are_the_same_in_their_order(form):
    """tests/attack has the others."""
    made = Folds.of(form, 10)
    assert made.same_as(Folds(TWO))
    assert_array_equal(made[1], [4, 0, 2])
    assert Folds(np.array([[3, 1], [4, 0]], "u1"))[0].dtype == np.int64


SOME = Folds(TWO, [[3], [0, 4]])  # scores only some
BAD = {  # what else is refused is in tests/attack; here is what is said
    "labels in a list": ([0, 1, 1, 0], "labels == a"),
    "masks": ([MASK, ~MASK], r"np\.flatnonzero\(mask\)"),
    "table of masks": (np.array([MASK, ~MASK]), "fold 0 is not"),
    "ragged": ([([0, 1], [2])], r"folds\.from_splitter"),
    "masked": ([np.ma.array([0, 1], mask=[False, True])], r"\.compressed\(\)"),
    "repeated in a table": (np.array([[0, 1], [4, 4]]), "fold 1 holds site 4 more than once"),
    "labels of pandas": (pd.DataFrame({"g": [1, 1]}).groupby("g").groups.values(), "is an Index"),
    "missing site": ([[0], [0, 5]], "fold 1 holds site 5, which is missing"),
    "everything": ([np.flatnonzero(HOLES)], "fold 0 leaves out all 8 observed sites"),
    "Folds of Folds": (lambda: Folds(Folds(TWO)), "these are Folds already"),
    "scored, not omitted": (lambda: Folds(TWO, [[3], [1]]), "fold 1 scores site 1, which it does"),
    "scored twice": (lambda: Folds(TWO, [[3, 3], [4]]), "fold 0 holds site 3 more than once"),
    "scored of too few": (lambda: Folds(TWO, [[3]]), "2 folds are omitted, 1 are scored"),
    "nothing scored": (lambda: Folds(TWO[1:], [[]]), "fold 0 scores no site"),
    "repeated by hand": (lambda: [*SOME, *SOME], "join folds by a \\+ b"),
    "drawn by hand": (lambda: (SOME[number] for number in [1]), "some by a\\[rows\\]"),
    "edges are None": (lambda: folds.regions(9, None, 2, 0), "edges, two .* must be real"),
    "edges are a matrix": (lambda: folds.balls(9, coo_array(np.eye(9)), 1), "a site to itself"),
    "a label": (lambda: Folds(TWO, labels="ab")["a"], r"folds\.labels has their names"),
    "flags as objects": (lambda: Folds(TWO)[pd.Series([True, False], dtype=object)], "type bool"),
    "below 0": (lambda: Folds([[-1]]), r"holds site -1, outside 0, 1, 2, \.\.\."),
    "labels of others": (lambda: Folds(TWO, labels="abc"), "3 labels of 2 folds"),
}
for r in (None, 1.0, True, [True], [[0], [0, 1]], [0.0], np.ma.array([True, False])):
    BAD[f"rows {r}"] = (lambda r=r: Folds(TWO)[r], "np.flatnonzero.* 2 flags of type bool")
MAKES = [
    folds.leave_one_out,
    lambda model: folds.k_fold(model, 3, 0),
    lambda model: folds.leave_future_out(model, [5]),
    lambda model: folds.iid(model, 30, 2, 0),
    lambda model: folds.contiguous(model, 30, 2, 0),
    lambda model: folds.leave_group_out(np.repeat([1, 2], 6)),
    lambda model: folds.leave_group_out(np.repeat([1, 2], 6), rng=0),
    lambda model: folds.from_splitter(KFold(4), np.zeros(12)),
    lambda model: folds.regions(model, [(0, 1)], 2, 0),
    lambda model: folds.balls(model, [(0, 1)], 1),
]


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD.keys())
def test_what_has_two_readings_or_none_is_refused_with_its_fold_and_site(bad, message):
    raises(message, lambda: Folds.of(bad() if callable(bad) else bad, 10, HOLES))


@given(st.data())
def test_folds_are_accepted_just_when_each_is_a_set_of_observed_sites_short_of_all(data):
    n_sites = data.draw(st.integers(1, 8))
    observed = np.array(data.draw(st.lists(st.booleans(), min_size=n_sites, max_size=n_sites)))
    drawn = data.draw(st.lists(st.lists(st.integers(-1, n_sites), max_size=5), max_size=4))
    seen = set(np.flatnonzero(observed))
    right = bool(drawn) and all(
        0 < len(fold) == len(set(fold)) < len(seen) and set(fold) <= seen for fold in drawn
    )
    kind = data.draw(st.sampled_from([np.int64, np.int8, ">i4"]))
    arrays = [np.array(fold, kind) for fold in drawn]
    if right:
        assert_array_equal(np.concatenate(Folds.of(arrays, n_sites, observed)), sum(drawn, []))
    else:
        raises("fold", Folds.of, arrays, n_sites, observed)


@settings(max_examples=50)
@given(st.data())
def test_picking_selecting_and_weighting_keep_each_fold_together(data):
    n_sites = data.draw(st.integers(2, 20))
    sets = st.lists(st.integers(0, n_sites - 1), min_size=1, max_size=n_sites, unique=True)
    omitted = data.draw(st.lists(sets, min_size=1, max_size=6))
    scored = [data.draw(st.permutations(fold)) for fold in omitted]
    scored = [part[: data.draw(st.integers(1, len(part)))] for part in scored]
    drawn = Folds(omitted, scored)
    order = np.array(data.draw(st.permutations(range(len(omitted)))))
    for ours, sites in zip(drawn.pick([np.sqrt(fold) for fold in drawn]), scored, strict=True):
        assert_array_equal(ours, np.sqrt(sites))
    for ours, sites in zip(drawn.split(np.concatenate(drawn.scored)), scored, strict=True):
        assert_array_equal(ours, sites)
    moved = drawn[order]
    assert moved.same_as(Folds([omitted[i] for i in order], [scored[i] for i in order]))
    rows = np.stack([folds.weights(n_sites, fold) for fold in moved])
    assert_array_equal(1.0 - moved.indicator(n_sites).toarray(), rows)
    assert_array_equal(rows.sum(axis=1), n_sites - moved.sizes)


def test_folds_keep_copies_and_index_and_iterate_as_a_list_of_arrays():
    omitted = [np.array([0, 1, 2]), np.array([3, 4])]
    scored = [np.array([0]), np.array([4])]
    table = np.array([[0, 1], [2, 3]])
    held = [Folds(omitted, scored), Folds(table), Folds(table, table[:, :1])]
    before = [([*map(list, f.omitted)], [*map(list, f.scored)]) for f in held]
    for array in (*omitted, *scored, table):
        array += 5
    assert [([*map(list, f.omitted)], [*map(list, f.scored)]) for f in held] == before
    whole = Folds(TWO, [[3], [0, 4]], labels=["b", "a"])
    assert (whole + whole[pd.Series([True, False], ["a", "b"])])[1:].labels.tolist() == ["a", "a"]
    assert Folds(TWO).part(pd.Series([True, False], [1, 0])).labels.tolist() == [1]
    assert len(whole) == 2
    assert all(map(np.array_equal, whole, whole.omitted))
    for rows in (slice(1, None), [1], (1,), np.array([False, True])):
        assert whole[rows].same_as(Folds(TWO[1:], [[0, 4]]))
    assert not whole.same_as(Folds(TWO))
    table = Folds(np.array([*Folds([[0, 1], [2, 3]], [[0], [2]])]))  # which has no memory
    assert table.scored is table.omitted
    assert Folds(TWO, [list(fold) for fold in TWO]).scored is not None
    assert_array_equal(whole[np.array(1)], whole[1])
    with pytest.raises(IndexError):
        whole[[2]]
    with pytest.raises(ValueError, match="np.flatnonzero"):
        whole[np.array([[1]])]


@dataclass
class Steps:
    n_sites: int = 12
    sites: str = "steps"
    observed: Any = None


@pytest.mark.parametrize("make", MAKES)
def test_folds_know_for_how_many_sites_of_what_kind_they_were_made(make):
    made = make(Steps(sites="sequences"))
    assert Folds.of(made, 12) is made
    raises("for 12 sites, the model has 2,744.*n_sites=2744", Folds.of, made[:1], 2744)
    assert Folds.of(make(12), Steps()) is not None  # numbers have no kind
    if made.sites:
        raises("out sequences, and the model steps: make them of", Folds.of, made, Steps())


RNG = np.random.default_rng(5)
TIGHT = 1e-9
LINE = [(i, i + 1) for i in range(23)]


def without_sites(model):
    """A function of flags (n_sites,) of what is left: by law 5 a site of weight 0 is no site."""
    return lambda left: replace(model, sample_weight=1.0 * left)


def glm():
    x = RNG.normal(size=(40, 3))
    y = (x @ [1.0, -1.0, 0.5] + RNG.logistic(size=40) > 0).astype(float)
    model = GLM(x, y, "logistic", penalty=1.0)
    return model, leave_future_out(40, [20, 26, 33], horizon=4, gap=2), without_sites(model)


def hmm():
    states = np.repeat([0, 1, 0, 1, 0], 12)
    x = RNG.normal(4.0 * states, 1.0)[:, None]
    x[7] = np.nan
    model = GaussianHMM(x, 2)
    scored = [*acv.folds.k_fold(model, 5)]
    wider = [np.arange(max(0, sites[0] - 3), min(60, sites[-1] + 4)) for sites in scored]
    omitted = [sites[model.observed[sites]] for sites in wider]
    return model, Folds(omitted, scored), without_sites(model)


def traffic():
    counts, day = simulate_traffic(np.random.default_rng(1), 210, days=10)
    model = PoissonTraffic(counts, day, prior=TrafficPrior(excess_shape=(2.0, 0.5)))
    starts = np.flatnonzero(model.observed)[[150, 190]]
    folds = leave_future_out(210, starts, 5, 2, model.observed)
    return model, folds, lambda left: replace(model, counts=np.where(left, counts, -1))


def mrf():
    model = HiddenMRF(RNG.poisson(np.where(np.arange(24) % 12 < 6, 3, 20)), LINE, 0.6)
    return model, balls(24, LINE, 2, centres_alone=True)[::3], without_sites(model)


def crf():
    lengths = RNG.integers(2, 6, 12)
    emissions = [RNG.normal(size=(length, 2)) for length in lengths]
    labels = [RNG.integers(0, 2, length) for length in lengths]
    model = LinearChainCRF(emissions, labels, 0.1)
    return model, Folds([[0, 1, 2], [5, 7, 3, 9]], [[1], [9, 5]]), without_sites(model)


@pytest.fixture(scope="module", params=[glm, hmm, traffic, mrf, crf], ids=lambda f: f.__name__)
def case(request):
    """(model, the one whose weights hide observations alone, folds, their deletion, fit)."""
    model, folds, without = request.param()
    observations = replace(model, scheme=keep_latents) if request.param is mrf else model
    return model, observations, folds, without, acv.fit(model, tolerance=TIGHT)


def by_difference(model, params, omitted, scored):
    """-log p(x_t | x outside the omitted sites): F with t back in, less F without it."""
    w = weights(model.n_sites, omitted)
    units = np.eye(model.n_sites)[scored]
    without = model.objective(params, w)
    return [model.objective(params, w + unit) - without for unit in units]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_scores_the_scored_sites_given_what_is_not_omitted(case, method):
    model, observations, folds, _, fit = case
    result = method(fit, folds)
    everything = zip(result.params, folds.omitted, folds.scored, strict=True)
    expected = [by_difference(observations, *one) for one in everything]
    for ours, theirs in zip(result.losses, expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_exact_is_deletion_of_all_that_is_omitted_and_a_refit(case):
    model, observations, folds, without, fit = case
    exact = acv.exact(fit, folds, tolerance=TIGHT)
    for number, (omitted, scored) in enumerate(zip(folds.omitted, folds.scored, strict=True)):
        left = weights(model.n_sites, omitted) > 0
        refit = acv.fit(without(left), start=fit.params, tolerance=TIGHT).params
        assert fit.standard_errors_between(exact.params[number], refit) < 1e-6
        expected = by_difference(observations, refit, omitted, scored)
        assert_allclose(exact.losses[number], expected, rtol=1e-5, atol=1e-7)
