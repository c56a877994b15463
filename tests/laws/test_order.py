"""Law 4: the order of rows, sequences, sites, columns, folds and candidates changes nothing."""

import numpy as np
from hypothesis import strategies as st

import acvlib as acv
from acvlib import models

from .doors import DOORS, compared_by
from .law import RNG, ask, cases, hold, same, taken


@cases("order", [name for name, door in DOORS.items() if door.free])
def test_order_means_nothing(name):
    door = DOORS[name]

    @hold(door.examples, rng=RNG, axis=st.sampled_from(door.free))
    def check(rng, axis):
        data = door.data(rng)
        key = next(key for key in data if axis in door.axes.get(key, ()))
        place = door.axes[key].index(axis)
        order = rng.permutation(len(data[key]) if place == 0 else data[key].shape[place])
        expected = taken(door.ask(**data), door, axis, order)
        same(ask(door.ask, **taken(data, door, axis, order)), expected, door.share)


@cases("order", [name for name, door in DOORS.items() if door.free or door.model], "of folds")
def test_the_number_of_a_fold_means_nothing(name):
    door = DOORS[name]

    @hold(max(2, door.examples // 5), rng=RNG)
    def check(rng):
        data = door.data(rng)
        fold = data["fold"]
        again = data | {"fold": np.where(fold < 0, fold, fold.max() - fold)}
        same(ask(door.ask, **again), door.ask(**data), door.share)


@cases("order", ["choose", "compare_models"], "of candidates")
def test_the_order_of_candidates_means_nothing(name):
    """Each has its own optimum: three numbers of states, of which one start does not find all."""

    @hold(3, rng=RNG, order=st.sampled_from(["321", "231"]))
    def check(rng, order):
        x = rng.poisson(np.tile(np.repeat([2.0, 9.0, 30.0, 4.0], 12), 2))
        folds = acv.folds.k_fold(len(x), 4)

        def told(keys):
            candidates = {k: models.PoissonHMM(x, int(k)) for k in keys}
            table = compared_by(name, candidates, folds, n_starts=2)
            return table.loc[["1", "2", "3"], ["elpd", "dse"]].to_numpy()

        assert np.array_equal(ask(told, order), ask(told, "123"))
