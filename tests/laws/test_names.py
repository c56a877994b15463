"""Law 3: what has names is aligned by them or refused; answers come back under the user's names.

Parts of a folder, and a target beside a frame: tests/rows.
"""

import pickle
from dataclasses import replace
from functools import partial
from importlib import import_module

import networkx
import numpy as np
import pandas as pd
import polars
import pytest
from hypothesis import strategies as st
from oracles.toy_models import OfFunctions
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold, LeaveOneGroupOut

import acvlib as acv
from acvlib import models
from acvlib.models.hmm.emissions import Channels, Gaussian, Poisson
from acvlib.models.mrf.areas import neighbours
from acvlib.weighting import hide_labels, weights_of

from .doors import DOORS, TIGHT, compared_by, folds_of, on_map, real_frames, words
from .law import RNG, Refused, ask, cases, hold, refused, same

HOLDERS = {  # what has the same names; the first says the order
    "GLM gaussian": ("row", ("X", "y", "weight")),
    "GLM multinomial": ("row", ("X", "y", "weight")),
    "PairwiseLinear": ("row", ("X", "y")),
    "SemiSupervised": ("row", ("X", "y", "points")),
    "kfold": ("row", ("X", "y")),
    "HMM": ("frame", ("x", "weight")),
    "GLMHMM": ("frame", ("x", "inputs")),
    "GaussianHMM with known states": ("frame", ("x", "known")),
    "HiddenMRF": ("node", ("counts", "adjacency", "exposure", "weight")),
    "PoissonTraffic": ("step", ("counts", "day")),
}


def labelled(value, axes, axis, shuffled=None):
    """As a Series or frame with names along an axis, stated in another order if one is given."""
    if isinstance(value, list):
        return [labelled(own, axes[1:], axis, shuffled) for own in value]
    names = [f"s{number:03}" for number in np.random.default_rng(7).permutation(len(value))]
    frame = pd.Series(value, names) if value.ndim == 1 else pd.DataFrame(value, names)
    if list(axes).count(axis) == 2:
        frame.columns = names
    if shuffled is None:
        return frame
    order = np.array(names)[shuffled.permutation(len(names))]
    return frame.loc[order, order] if list(axes).count(axis) == 2 else frame.loc[order]


@cases("names", HOLDERS, "of sites")
def test_what_has_names_is_aligned_by_them(name):
    door, (axis, keys) = DOORS[name], HOLDERS[name]

    @hold(max(6, door.examples // 3), rng=RNG, number=st.integers(0, 2))
    def check(rng, number):
        data = door.data(rng)
        if "weight" in data and name != "GLMHMM":
            data["weight"] = rng.integers(1, 3, len(data["weight"])) * 1.0
        holder = keys[1 + number % (len(keys) - 1)]
        held = {key: labelled(data[key], door.axes[key], axis) for key in keys}
        held[holder] = labelled(data[holder], door.axes[holder], axis, rng)
        expected = door.ask(**data)
        try:
            found = ask(door.ask, **data | held)
        except Refused as error:
            if isinstance(error.__cause__, ValueError | TypeError):
                return
            raise
        same({"losses": found["losses"]}, {"losses": expected["losses"]})


@cases("names", ["HiddenMRF of a map"], "of sites")
def test_a_column_beside_a_map_is_aligned_with_it(name):
    areas = on_map({"counts": np.arange(1.0, 13.0), "exposure": np.ones(12)}).iloc[::-1]
    people = pd.Series(np.arange(1.0, 13.0))
    given = areas["n"], neighbours(areas), 0.5
    if not refused(models.HiddenMRF, *given, exposure=people):
        found = models.HiddenMRF(*given, exposure=people).exposure
        assert np.array_equal(found, people.loc[areas.index])
        model, at = models.HiddenMRF(*given), np.log([1.0, 9.0])
        assert model.objective(at, people) == model.objective(at, people.loc[areas.index])


ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 2)), [f"s{i}" for i in range(12)])
GROUPS = pd.Series(np.arange(12) // 2, ROWS.index)
SERIES = np.random.default_rng(0).normal(size=(12, 9, 1))
WEIGHED = {"sample_weight": 1.0 + GROUPS}
TURNED, NO_EDGES = (ROWS[::-1], GROUPS[::-1]), np.empty((0, 2), int)


def by_method(model, method=acv.exact):
    return partial(method, acv.fit(model))


def by_learner(data):
    return partial(acv.kfold, acv.learners.lsqsgd(2, 0.1), data)


def by_sklearn(folds):
    line = LinearRegression().fit(ROWS, GROUPS)
    return acv.approx_cross_validate(line, ROWS, GROUPS, cv=folds)


WITH_ROWS = {  # functions of folds, made when they are asked
    "GLM gaussian": lambda: by_method(models.GLM(ROWS, GROUPS, "gaussian")),
    "HMM": lambda: by_method(models.GaussianHMM(ROWS, 1)),
    "HMM of weights": lambda: by_method(models.GaussianHMM(ROWS.to_numpy(), 1, **WEIGHED)),
    "HMM of weights of sequences": lambda: by_method(models.GaussianHMM([*SERIES], 1, **WEIGHED)),
    "HiddenMRF": lambda: by_method(models.HiddenMRF(GROUPS, NO_EDGES, 0.5), acv.no_adjustment),
    "y": lambda: by_method(models.GLM(ROWS.to_numpy(), GROUPS, "gaussian")),
    "kfold": lambda: by_learner(acv.Examples(ROWS, GROUPS)),
    "kfold of some": lambda: by_learner(acv.Examples(*TURNED).take(np.arange(12)[::-1])),
    "observed": lambda: by_method(own_mean(index=None, observed=GROUPS < 9)),
    "from_jax": lambda: by_method(adapted(np, "from_jax")),
    "from_torch": lambda: by_method(adapted(import_module("torch"), "from_torch")),
    "approx_cross_validate": lambda: by_sklearn,
}


def adapted(library, name):
    """The mean of 0, ..., 11, whose names stand beside what is observed alone."""
    y = library.arange(12)
    functions = lambda p, w: (w * (p[0] - y) ** 2).sum(), lambda p, sites: (p[0] - sites) ** 2
    return getattr(acv, name)(*functions, 12, np.zeros(1), observed=GROUPS < 9)


@cases("names", WITH_ROWS, "of labels of folds")
def test_labels_of_folds_are_not_places(name):
    """Folds are made where the rows are not known: who has both refuses another order."""
    asked = WITH_ROWS[name]()
    for maker in (acv.folds.leave_group_out, lambda own: acv.folds.k_fold(12, 3, observed=own < 9)):
        if "kfold" not in name or maker is acv.folds.leave_group_out:  # a partition
            ask(asked, maker(GROUPS))
        for folds in (maker(GROUPS[::-1]), maker(GROUPS[::-1])[:2]):
            assert refused(asked, folds, words="to_numpy")


@cases("names", ["leave_one_out", "leave_group_out", "from_splitter"], "of flags")
def test_flags_are_aligned_with_what_they_stand_beside(name):
    flags = GROUPS > 3
    weight = 1 + GROUPS[::-1]
    fit = acv.fit(models.GLM(ROWS.to_numpy(), GROUPS, "gaussian", sample_weight=weight))
    assert np.array_equal(fit.model.sample_weight, weight[::-1])
    kept = pd.DataFrame([1.0 * ~flags])
    found = acv.bootstrap.refits(fit, kept[ROWS.index[::-1]])
    assert np.array_equal(found, acv.bootstrap.refits(fit, kept.to_numpy()))
    assert acv.influence(fit).index.equals(ROWS.index)
    makers = {
        "leave_one_out": partial(acv.folds.leave_one_out, fit.model),
        "leave_group_out": partial(acv.folds.leave_group_out, GROUPS),
        "from_splitter": partial(acv.folds.from_splitter, KFold(3), ROWS),
    }
    expected = makers[name](observed=flags.to_numpy())
    assert makers[name](observed=flags[::-1]).same_as(expected)


WORDS = [list(own) for own in ("aba", "bb", "ab", "b", "aab", "ba", "abb", "a")]
TAGS = [["ab".index(word) for word in own] for own in WORDS]
SENTENCES = {
    "FeatureCRF": (acv.FeatureCRF, [[[word] for word in own] for own in WORDS], WORDS),
    "LinearChainCRF": (models.LinearChainCRF, [np.eye(2)[own] for own in TAGS], TAGS),
}


@cases("names", SENTENCES, "of sentences")
def test_sentences_have_the_names_that_anything_beside_them_has(name):
    make, *given = SENTENCES[name]
    given += [1.0, None, *[None] * (name == "FeatureCRF"), np.arange(8.0) + 1.0]
    names = pd.Index([f"s{number}" for number in range(8)])
    weight = pd.Series(given[-1], names)[::-1]
    for holder in (0, 1, -1):
        held = [*given[:-1], weight]
        held[holder] = pd.Series(given[holder], names)
        for model in (make(*held), replace(make(*held), ridge=2.0)):
            assert model.index.equals(names)
            for own in (model, replace(model, sample_weight=weight)):
                assert np.array_equal(own.sample_weight, given[-1])
            turned = replace(model, labels=pd.Series(given[1], names)[::-1])
            assert all(map(np.array_equal, turned.labels, model.labels))
        assert refused(acv.folds.Folds.of, acv.folds.leave_group_out(weight), model)


@cases("names", SENTENCES, "of tokens")
def test_tokens_have_the_names_that_anything_beside_them_has(name):
    make, scores, labels = SENTENCES[name]
    names = pd.Index([f"t{number}" for number in range(sum(map(len, labels)))])
    own = np.split(names, np.cumsum([len(each) for each in labels])[:-1])
    frame = pd.DataFrame if name == "LinearChainCRF" else pd.Series
    X = [frame(each, index) for each, index in zip(scores, own, strict=True)]
    y = [pd.Series(each, index) for each, index in zip(labels, own, strict=True)]
    make = partial(make, ridge=1.0, scheme=hide_labels)
    plain, weight = make(scores, labels), pd.Series(np.arange(len(names)) % 2 * 1.0, names)
    params = np.arange(plain.n_params) / 3.0
    for given in ((X, labels), (scores, y), (X, [each[::-1] for each in y])):
        for model in (make(*given), replace(make(*given), ridge=1.0)):
            assert all(map(np.array_equal, model.labels, plain.labels))
            found = model.objective(params, weight[::-1])
            assert found == plain.objective(params, weight.to_numpy())
            assert refused(acv.folds.Folds.of, acv.folds.leave_group_out(weight[::-1]), model)


class Mean:
    """A learner of the mean, which cannot learn without the group that `lacks` says."""

    def __init__(self, lacks=None):
        self.lacks = lacks

    def init(self):
        return []

    def update(self, state, X, y):
        return [*state, *y]

    def loss(self, state, X, y):
        if self.lacks in y:
            raise RuntimeError("no")
        return (y - np.mean(state)) ** 2


@cases("names", ["kfold", "check_result", "plots.series"], "of folds")
def test_folds_are_called_by_their_labels(name):
    """In tables, in what is shown, in errors: groups 1 to 4 are folds 0 to 3."""
    y = np.arange(40.0) % 4 + 1
    folds = acv.folds.leave_group_out(y.astype(int))
    if name == "kfold":
        data = acv.Examples(y[:, None], y)
        found = acv.kfold(Mean(), data, folds).to_frame().loc[2, "loss"]
        assert np.isclose(found, (2 - 8 / 3) ** 2)
        with pytest.raises(RuntimeError, match="^fold 2 failed") as failed:
            acv.kfold(Mean(2), data, folds)
        assert "unreliable: [2]" in repr(pickle.loads(pickle.dumps(failed.value)).result)
    elif name == "check_result":
        fit = acv.fit(models.GLM(y[:, None], np.sin(y), "gaussian", penalty=1.0))
        result = acv.infinitesimal_jackknife(fit, folds)
        result.params[1] += 5.0
        assert "; fold 2: params" in str(acv.check_result(result))
        assert "unreliable: [2]" in repr(replace(result, indefinite=np.arange(4) == 1))
    else:
        values = pd.Series(y, [f"s{i}" for i in range(40)])
        turned = acv.folds.leave_group_out(values[::-1])
        assert refused(acv.plots.series, None, np.arange(40), values, turned, words="to_numpy")


@cases("names", ["Model", "HiddenMRF"], "of sites, of what is observed, or none")
def test_names_are_those_of_what_is_observed_or_there_are_none(name):
    """And none that depends on whether pandas was imported; in the order of the sites."""
    if name == "HiddenMRF":
        model = models.HiddenMRF(GROUPS.to_numpy(), NO_EDGES, 0.5)
        assert acv.folds.leave_one_out(model).labels is None
        by_number = pd.Series(np.arange(1.0, 13.0), range(12))
        assert replace(model, exposure=by_number[::-1]).exposure.tolist() == by_number.tolist()
        named = models.HiddenMRF(GROUPS, NO_EDGES, 0.5)
        acv.choose([named, replace(named, coupling=0.7)], acv.folds.k_fold(12, 3))
        return
    seen = pd.Series(np.arange(12) != 11, ROWS.index)
    model, turned = (own_mean(index=None, observed=own) for own in (seen, seen[ROWS.index[::-1]]))
    fit = acv.fit(model)
    turned.observed[:] = seen.to_numpy()
    folds = acv.folds.k_fold(12, 3, observed=seen.to_numpy())
    assert refused(acv.choose, [model, turned], folds, words="to_numpy")
    assert list(acv.influence(fit).index) == list(ROWS.index[:11])
    weights = pd.DataFrame([np.arange(12.0)], columns=ROWS.index)
    found = acv.bootstrap.refits(fit, weights[ROWS.index[::-1]])
    assert np.array_equal(found, acv.bootstrap.refits(fit, weights.to_numpy()))
    seen = pd.Series(np.arange(12) != 11, ROWS.index[::-1])  # s0 is missing
    assert list(acv.folds.leave_one_out(own_mean(observed=seen)).labels) == list(ROWS.index[1:])
    weights = pd.Series(np.arange(12.0), ROWS.index[::-1])
    assert np.array_equal(weights_of(own_mean(sample_weight=weights)), np.arange(12.0)[::-1])
    free = own_mean(sample_weight=None, context=5, frames=[1], log_prior=1.0, sequences=[1])
    acv.choose([free, free], acv.folds.k_fold(12, 3), "exact")  # names that mean nothing here


DAYS = pd.date_range("2024", periods=6)
KINDS = {
    "dates": (DAYS, DAYS.strftime("%Y-%m-%d")),
    "periods": (DAYS.to_period("D"), DAYS.strftime("%Y-%m-%d")),
    "spans": (DAYS - DAYS[0], pd.Index([f"{day} days" for day in range(6)])),
    "pairs": [pd.MultiIndex.from_product([["a"], d]) for d in (DAYS, DAYS.strftime("%Y-%m-%d"))],
    "text": (DAYS.strftime("%Y-%m-%d"), DAYS),
    "hours elsewhere": (DAYS.tz_localize("UTC"), DAYS.tz_localize("UTC").tz_convert("Asia/Tokyo")),
    "intervals": [pd.IntervalIndex.from_arrays(np.arange(6), np.arange(6) + 3)] * 2,
    "in intervals": (pd.interval_range(0, 6), pd.Index(np.arange(6) + 0.5)),
    "twice": [pd.Index([*"aabcde"])] * 2,
    "two texts of a day": (DAYS, pd.Index(["2024-01-01", "2024-1-1", *map(str, DAYS[2:])])),
}


@cases("names", ["GLM gaussian"], "of kinds of index")
def test_names_of_any_kind_are_aligned_or_refused(name):
    """Dates and their texts, in pandas, are alike one way round, and not the other."""
    for kind, (rows, names) in KINDS.items():
        for order in (np.arange(6), np.array([2, 0, 1, 5, 4, 3])):
            given = pd.DataFrame(np.ones(6), rows), pd.Series(1.0 * order, names[order])
            build = partial(models.GLM, *given, "gaussian", penalty=1.0)
            assert refused(build, words="to_numpy") or np.array_equal(build().y, np.arange(6.0))
            if kind in ("hours elsewhere", "intervals"):
                build()
    both = acv.folds.leave_group_out([True, False, True, False])
    assert both[pd.Series([True, False], [True, False])].labels.tolist() == [True]


@cases("names", ["GaussianHMM", "LinearChainCRF"], "of lengths")
def test_lengths_beside_sequences_are_aligned(name):
    lengths = pd.Series([9, 4, 7], ["c", "b", "a"])
    if name == "GaussianHMM":
        model = models.GaussianHMM((np.arange(20.0)[:, None] % 7, lengths), 1, sites="steps")
    else:
        scores = [np.random.default_rng(0).normal(size=(size, 2)) for size in lengths]
        labels = pd.Series([np.arange(size) % 2 for size in lengths], lengths.index)
        model = models.LinearChainCRF(scores, labels, 0.1, acv.weighting.hide_labels)
    make = partial(acv.folds.leave_future_out, model, [2], 1)
    assert make(lengths=lengths[::-1]).same_as(make(lengths=lengths.to_numpy()))
    assert refused(make, lengths=lengths.reset_index(drop=True), words="to_numpy")


@cases("names", ["compare_models", "choose", "same_choice"], "of sites of two models")
def test_models_of_other_people_are_not_compared(name):
    """Their y may be equal all the same, as where rows are sorted by it."""
    y = np.repeat([0.0, 1.0], 6)
    first, other = (models.GLM(rows, y, "logistic", penalty=1.0) for rows in (ROWS, ROWS[::-1]))
    folds = acv.folds.leave_one_out(12)

    def asked(own):
        if name == "same_choice":
            return acv.same_choice(acv.fit(first), acv.fit(own), 1)
        method = "newton_step" if name == "compare_models" else None
        return compared_by(name, {"first": first, "other": own}, folds, method)

    assert refused(asked, other, words="to_numpy")
    asked(replace(first, X=ROWS.to_numpy()[::-1]))  # which has no names


@cases("names", ["HiddenMRF", "SemiSupervised", "bootstrap.refits"], "of columns of polars")
def test_frames_without_an_index_have_names_of_columns(name):
    """Square ones, and those with a column a site."""
    links = pd.DataFrame(np.eye(12, k=1) + np.eye(12, k=-1), ROWS.index, ROWS.index)
    turned = links.loc[ROWS.index[::-1], ROWS.index[::-1]].iloc[[3, *range(3), *range(4, 12)]]
    turned = turned[turned.index]
    if name == "HiddenMRF":
        build, at = partial(models.HiddenMRF, GROUPS, coupling=0.5), np.log([1.0, 9.0])
        found, expected = build(edges=polars.from_pandas(turned)), build(edges=links)
        ones = np.ones(12)
        assert np.isclose(found.objective(at, ones), expected.objective(at, ones))
    elif name == "SemiSupervised":
        affinity = models.GraphAffinity(polars.from_pandas(turned))
        assert refused(models.ManifoldEnergy, ROWS, affinity, words="to_numpy")
    else:
        fit = acv.fit(models.GLM(ROWS, GROUPS, "gaussian", penalty=1.0))
        weights = pd.DataFrame(1.0 + np.arange(24.0).reshape(2, 12), columns=ROWS.index)
        expected = acv.bootstrap.refits(fit, weights.to_numpy())
        for form in (weights, polars.from_pandas(weights)):
            assert np.array_equal(acv.bootstrap.refits(fit, form[[*ROWS.index[::-1]]]), expected)


@cases("names", ["SemiSupervised"], "of an energy")
def test_labels_are_in_the_order_of_the_points(name):
    energy = models.ManifoldEnergy(ROWS, models.RBFAffinity(ROWS, 1.0))
    y = pd.Series(np.arange(12.0), ROWS.index)
    for given in (y, y[::-1], y.to_numpy()):
        model = models.SemiSupervised(energy, given)
        assert np.array_equal(model.y, y)
        assert model.index.equals(ROWS.index)
    assert refused(models.SemiSupervised, energy, y[:9], words="the rows")
    assert refused(models.SemiSupervised, energy, y[:9].to_numpy(), words="p = 12 as in energy")


BESIDE_X = ["approx_cross_validate", "approx_cross_val_predict", "approx_tune"]


@cases("names", BESIDE_X, "of rows beside X")
def test_rows_beside_those_of_scikit_learn_are_in_their_order_or_refused(name):
    """As scikit-learn takes them by place; names that X does not have are no names of its rows."""
    y = pd.Series(np.cos(np.arange(12.0)), ROWS.index)
    beside = {"X": ROWS, "y": y, "groups": GROUPS, "weight": 1.0 + GROUPS}

    def told(**changed):
        X, y, groups, weight = (beside | changed).values()
        fit, params = Ridge().fit(X, y, weight), {"sample_weight": weight}
        values = [[1.0]] if name == "approx_tune" else []
        settings = {"cv": LeaveOneGroupOut(), "groups": groups, "params": params}
        said = getattr(acv, name)(fit, X, y, *values, **settings)
        return said["test_score"] if isinstance(said, dict) else getattr(said, "scores", said)

    for key in ("y", "groups", "weight"):
        right = beside[key]
        words = f"{key}.loc[X.index], to fit as well, or "
        assert refused(told, words=words, **{key: right[::-1]})
        assert refused(told, X=ROWS.to_numpy(), words="another order", **{key: right[::-1]})
        for given in (right[::-1].loc[ROWS.index], right.to_numpy(), right.reset_index(drop=True)):
            assert np.array_equal(told(**{key: given}), told())


@cases("names", ["approx_cross_validate"], "of a class that nothing weighs")
def test_a_class_without_weight_is_called_by_its_label(name):
    y, w = np.repeat(["a", "b", "c"], 4), np.repeat([1.0, 0.0, 1.0], 4)
    words = "class b where sample_weight is above 0"
    asked = partial(acv.approx_cross_validate, cv=3, params={"sample_weight": w})
    assert refused(asked, LogisticRegression().fit(ROWS, y, w), ROWS, y, words=words)


def own_mean(**named):
    """A model of one's own whose index names its sites."""

    def losses(params, sites=slice(None)):
        return (params[0] - np.arange(12.0)[sites]) ** 2

    model = OfFunctions(12, lambda params, weights: (weights * losses(params)).sum(), losses)
    vars(model).update({"index": ROWS.index} | named)
    return model


def kinds_by_name(x, weight):
    emission = Channels({"b": Poisson(), "a": Gaussian()})
    return models.HMM(x, 2, emission, sites="sequences", sample_weight=weight)


SEQUENCES = ("GaussianHMM", "GaussianHMM full", "MixtureHMM", "PoissonHMM", "AutoRegressiveHMM")
SEQUENCES += ("NegativeBinomialHMM", "HMM of channels")


@cases("names", SEQUENCES, "of columns")
def test_columns_of_sequences_are_aligned(name):
    """Frames of which one has its columns in another order, in the fit and where it is asked."""
    door = DOORS[name]
    model_of = kinds_by_name if name == "HMM of channels" else door.model
    x = door.data(np.random.default_rng(0))["x"]
    frames = [pd.DataFrame(np.column_stack([own[:, 0], 2 * own[:, -1] + 1])) for own in x]
    frames = [frame.set_axis(["a", "b"], axis=1) for frame in frames]
    other = [*frames[:-1], frames[-1][["b", "a"]]]
    weight = np.ones(len(x))
    plain = [frame.to_numpy() for frame in frames]
    if not refused(model_of, x=other, weight=weight):
        model = model_of(x=other, weight=weight)
        assert all(map(np.array_equal, model.sequences, plain))
        params = model.initial_params(np.random.default_rng(0))
        turned = frames[0][["b", "a"]]
        for new in ([turned], (turned, [len(turned)]), (polars.from_pandas(turned), [len(turned)])):
            found = model.sequence_losses(params, new)
            assert np.array_equal(found, model.sequence_losses(params, plain[:1]))


@cases("names", ["FeatureCRF"], "of tags and sentences")
def test_names_of_sentences_are_aligned(name):
    X = pd.Series([[{"w": "a"}], [{"w": "b"}], [{"w": "a"}]])
    y = pd.Series([["N"], ["V"], ["N"]])
    model, other = acv.FeatureCRF(X, y), acv.FeatureCRF(X, y[::-1])
    params, ones = np.arange(model.n_params) / 3.0, np.ones(model.n_sites)
    assert model.objective(params, ones) == other.objective(params, ones)


@cases("names", ["LinearChainCRF"], "of tags")
def test_columns_of_scores_are_aligned(name):
    scores = np.random.default_rng(0).normal(size=(4, 5, 2))
    plain = [pd.DataFrame(own, columns=["N", "V"]) for own in scores]
    labels = [(own.N < own.V).astype(int) for own in plain]
    turned = [plain[0], *(own[["V", "N"]] for own in plain[1:])]
    model = models.LinearChainCRF(plain, labels, 0.1)
    other = models.LinearChainCRF(turned, [own[::-1] for own in labels], 0.1)
    params, ones = np.arange(8.0), np.ones(4)
    assert np.array_equal(model.marginals(params, turned[1:]), model.marginals(params)[1:])
    assert model.objective(params / 3.0, ones) == other.objective(params / 3.0, ones)


@cases("names", ["HMM"], "of frames")
def test_weights_of_frames_are_aligned_in_all_forms(name):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 1)))
    weights = pd.Series(np.arange(20.0))
    for form in (frame, (frame, [8, 12]), [frame[:8], frame[8:]], (frame,)):
        model = models.GaussianHMM(form, 1, sites="steps", sample_weight=weights[::-1])
        assert np.array_equal(model.sample_weight, weights)
    lengths = pd.Series([8, 12], [1, "b"])  # names of two types
    model = models.GaussianHMM((frame, lengths), 1, sample_weight=weights[:2].set_axis(["b", 1]))
    assert model.sample_weight.tolist() == [1.0, 0.0]


@cases("names", ["GLM gaussian", "GLM logistic", "GLM multinomial"], "of columns")
def test_columns_of_new_rows_are_aligned(name):
    door = DOORS[name]
    data = door.data(np.random.default_rng(0))
    frame = pd.DataFrame(data["X"], columns=["a", "b"])
    model = door.model(**data | {"X": frame})
    params = acv.fit(model).params
    turned = frame[["b", "a"]]
    if not refused(model.predict, params, turned):
        assert np.allclose(model.predict(params, turned), model.predict(params, data["X"]))


@cases("names", ["CategoricalHMM"], "of symbols")
def test_codes_are_names(name):
    door = DOORS[name]
    codes = st.lists(st.integers(0, 600), min_size=3, max_size=3, unique=True)

    @hold(5, rng=RNG, codes=codes)
    def check(rng, codes):
        data = door.data(rng)
        said = door.ask(**data)
        renamed = [np.array(sorted(codes))[own.astype(int)] for own in data["x"]]
        found = ask(door.ask, **data | {"x": renamed})
        shared = {"losses", "posterior", "states"}
        same({k: found[k] for k in shared}, {k: said[k] for k in shared})


@cases("names", ["approx_cross_val_predict", "FeatureCRF"], "of classes")
def test_classes_have_any_names(name):
    """Decisions come back under the names, whatever their order."""

    @hold(3, rng=RNG, names=st.permutations(["z", "Q", "a"]))
    def check(rng, names):
        data = DOORS["FeatureCRF" if name == "FeatureCRF" else "GLM multinomial"].data(rng)
        called = np.array(names)

        def told(called):
            if name == "FeatureCRF":
                labels = [[str(called[k]) for k in own] for own in data["tags"]]
                model = acv.FeatureCRF(words(data["scores"]), labels, 0.5)
                return np.array(model.predict(acv.fit(model).params))
            y = called[data["y"].astype(int)]
            m = LogisticRegression(tol=1e-8, solver="newton-cholesky").fit(data["X"], y)
            return acv.approx_cross_val_predict(m, data["X"], y, cv=3)

        expected = ask(told, np.array(["0", "1", "2"]))
        assert np.array_equal(ask(told, called), called[expected.astype(int)])


LABELS = {
    "whole numbers": [10, 9, 10, 2, 2, 9],
    "text": ["b", "a", "b", "10", "10", "9"],
    "mixed": [1, "1", 1, 2.5, 2.5, "1"],
    "pairs": [("a", 1), ("a", 2), ("a", 1), ("b", 1), ("b", 1), ("a", 2)],
}


@cases("names", ["leave_group_out"], "of groups")
def test_groups_are_what_is_equal(name):
    """Labels that differ are different groups, or are refused; none is merged or lost."""
    for labels in LABELS.values():
        expected = {tuple(np.flatnonzero([b == a for b in labels])) for a in labels}
        for rng in (None, 0):
            if not refused(acv.folds.leave_group_out, labels, rng=rng):
                made = acv.folds.leave_group_out(labels, rng=rng)
                assert {tuple(fold.tolist()) for fold in made} == expected, labels
                ways = zip(made.labels, made, strict=True)
                assert all(labels[fold[0]] == label for label, fold in ways)
                assert made[[1]].labels.tolist() == made.labels.tolist()[1:2]


@cases("names", ["HiddenMRF"], "of nodes")
def test_nodes_of_a_graph_are_not_places(name):
    """An array of counts has no names: nodes that are not 0 ... n - 1 in order must be refused."""

    @hold(6, rng=RNG, first=st.integers(0, 1))
    def check(rng, first):
        counts = np.arange(7.0) + rng.poisson(3, 7)
        graph = networkx.Graph()
        graph.add_nodes_from((rng.permutation(7) + first).tolist())
        graph.add_edges_from([(n + first, n + 1 + first) for n in range(6)])
        plain = np.column_stack([np.arange(6), np.arange(1, 7)])
        point = np.log([1.0, 9.0])
        if not refused(models.HiddenMRF, counts, graph, 0.8):
            found = models.HiddenMRF(counts, graph, 0.8).objective(point, np.ones(7))
            expected = models.HiddenMRF(counts, plain, 0.8).objective(point, np.ones(7))
            assert first == 0
            assert np.isclose(found, expected)


@cases("names", ["compare_methods", "theta_errors"], "of states")
def test_states_are_matched_before_they_are_compared(name):
    """Refits from other starts number the states otherwise, and are the same models."""

    @hold(2, rng=RNG, fixed=st.sampled_from([None, [[0.5, 0.5], [np.nan] * 2, [np.nan] * 2]]))
    def check(rng, fixed):
        x = np.concatenate([real_frames(rng, np.arange(48) // 12 % 2) for _ in range(3)])
        fit = acv.fit(models.GaussianHMM(x, 2, fixed=fixed), **TIGHT)
        folds = folds_of(np.arange(len(x)) // 36)
        exact = acv.exact(fit, folds)
        for other in [acv.from_scratch(fit, folds, n_starts=2, rng=k) for k in range(3)]:
            if name == "theta_errors":
                worst = ask(acv.theta_errors, exact, other).max()
            else:
                worst = ask(acv.compare_methods, exact, other).theta_error_max.max()
            assert worst < 1e-4
