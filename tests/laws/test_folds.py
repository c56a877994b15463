"""Law 10: folds belong to the sites that they were made for: another number or kind is refused."""

import numpy as np
from hypothesis import strategies as st

import acvlib as acv
from acvlib import models

from .doors import DOORS, METHODS, compared_by, real_frames
from .law import RNG, ask, cases, hold, refused

MODELS = [name for name, door in DOORS.items() if door.public[0].startswith("models.")]
MODELS = [name for name in MODELS if DOORS[name].model]
MAKERS = {
    "k_fold": lambda n: acv.folds.k_fold(n, 3),
    "leave_one_out": acv.folds.leave_one_out,
    "leave_group_out": lambda n: acv.folds.leave_group_out(np.arange(n) % 3),
}


@cases("folds", MODELS)
def test_folds_of_fewer_sites_are_refused(name):
    door = DOORS[name]

    @hold(1, rng=RNG, fewer=st.integers(1, 3))
    def check(rng, fewer):
        model = door.model(**door.data(rng))
        fit = acv.fit(model)
        for maker in MAKERS.values():
            folds = maker(model.n_sites - fewer)
            assert refused(acv.exact, fit, folds, words=str(model.n_sites))


@cases("folds", [method.__name__ for method in METHODS], "of sequences, given frames")
def test_folds_of_sequences_are_refused_by_a_model_of_frames(name):
    """Leave one of 12 sequences out is not leave the first 12 frames out."""

    @hold(1, rng=RNG)
    def check(rng):
        x = [real_frames(rng, np.arange(10) // 5) for _ in range(12)]
        model = models.GaussianHMM(x, 2, sites="steps")
        folds = acv.folds.leave_one_out(len(x))
        assert refused(getattr(acv, name), acv.fit(model), folds, words="12")


@cases("folds", ["GaussianHMM", "PoissonHMM", "CategoricalHMM", "GLMHMM"], "one default of sites")
def test_a_list_of_sequences_has_the_same_sites_at_every_door(name):
    data = DOORS[name].data(np.random.default_rng(0))
    kind = getattr(models, name)
    inputs = (data["inputs"],) if "inputs" in data else ()
    found = ask(lambda: kind(data["x"], *inputs, 2)).sites
    joined = [np.hstack(each) for each in zip(data["x"], *inputs, strict=True)]
    assert found == models.HMM(joined, 2, kind(data["x"], *inputs, 2).emission).sites


@cases("folds", ["GLM gaussian", "GaussianHMM"], "know their groups")
def test_labels_of_groups_come_back(name):
    """Folds by group are named by it in the table of results."""
    door = DOORS[name]
    model = door.model(**door.data(np.random.default_rng(0)))
    labels = np.array(["ann", "bob", "cy"])[np.arange(model.n_sites) % 3]
    result = acv.exact(acv.fit(model), acv.folds.leave_group_out(labels))
    assert list(result.to_frame().index) == ["ann", "bob", "cy"]


@cases("folds", ["choose", "compare_models"], "of other outcomes")
def test_models_of_other_outcomes_are_not_compared(name):
    """What is left out is the same sites, not the same data: a rule of both doors or none."""
    door = DOORS["GLM logistic"]
    data = door.data(np.random.default_rng(0))
    rows = door.model(**data)
    other = door.model(**data | {"y": data["y"][::-1]})
    x = list(np.random.default_rng(0).normal(size=(24, 9, 1)))
    orders = [models.AutoRegressiveHMM(x, 1, order) for order in (1, 2)]  # 8 and 7 frames of each
    steps = models.GaussianHMM(data["y"][::-1] + 0.0, 1)  # outcomes of another name
    whole = np.vstack(x)  # of which sequences are cut at other places
    cut = [models.GaussianHMM(np.split(whole, range(n, 24 * n, n)), 1) for n in (8, 9)]
    folds = acv.Folds(list(acv.folds.k_fold(24, 3, rng=0)))
    for pair in ((rows, other), orders, (rows, steps), cut):
        named = dict(zip("ab", pair, strict=True))
        assert refused(compared_by, name, named, folds, words="different data")
