"""What an HMM takes for data: every reading that is taken is the right one, all others refused."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from oracles.wrappers import ByAutograd, raises
from test_hmm import LENGTHS, choices, close

import acvlib as acv
from acvlib.models import GLMHMM, HMM, AutoRegressiveHMM, GaussianHMM
from acvlib.models.hmm.emissions import AutoRegression, Categorical, Gaussian


def regimes(seed=0, shape=(60, 1)):
    """Two states, far apart, for long stretches."""
    rng = np.random.default_rng(seed)
    state = np.repeat(np.arange(6) % 2, shape[0] // 6)
    return 3.0 * state[:, None] + rng.normal(size=shape)


def shapes(model):
    return [sequence.shape for sequence in model.sequences]


def objective(model):
    return model.objective(model.initial_params(), np.ones(model.n_sites))


def test_a_list_means_sequences_however_long_and_one_of_lists_of_a_number_could_be_either():
    x = regimes(shape=(60, 1))[:, 0]
    assert shapes(GaussianHMM(x, 2)) == [(60, 1)]
    assert shapes(GaussianHMM(x.tolist(), 2)) == [(60, 1)]
    assert shapes(GaussianHMM(x.reshape(30, 2), 2)) == [(30, 2)]
    assert shapes(GaussianHMM(list(x.reshape(30, 2)), 2)) == [(2, 1)] * 30
    assert shapes(GaussianHMM([x[:20], x[20:]], 2)) == [(20, 1), (40, 1)]
    assert shapes(GaussianHMM([x.reshape(30, 2)] * 2, 2)) == [(30, 2)] * 2
    assert shapes(GaussianHMM(x.reshape(2, 15, 2), 2)) == [(15, 2)] * 2
    x = regimes(shape=(60, 1))
    for column in (x.tolist(), tuple(map(tuple, x)), list(x)):
        for door in (GaussianHMM, HMM):
            raises(r"60 lists of 1 number: .* \[1\] \* 60", door, column, 2)
    readings = r"pass \[x\] if it is one sequence of 30 frames with 2 channels, or list\(x\) if"
    for door in (HMM, AutoRegressiveHMM):
        raises(readings, door, regimes(shape=(30, 2)), 2)
        raises("one sequence of 30 frames with 1 channels", door, regimes(shape=(30, 1))[:, 0], 2)
    assert shapes(GaussianHMM((x, [1] * 60), 2)) == [(1, 1)] * 60
    assert shapes(HMM([x.tolist()], 2)) == [(60, 1)]


def test_what_the_caller_changes_later_changes_nothing():
    x = regimes()
    listed = [x[:30], x[30:]]
    lengths = np.array([30, 30])
    one, two = HMM(listed, 2), HMM((x, lengths), 2)
    before = objective(HMM([x[:30].copy(), x[30:].copy()], 2))
    x[:] = 7.0
    lengths[:] = 1
    listed.clear()
    assert objective(one) == objective(two) == before
    with pytest.raises(ValueError, match="read-only"):
        one.sequences[0][0] = 1.0


def awkward():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=60)
    outlier = noise.copy()
    outlier[30] = 1e6
    return {
        "a price-like walk": 1e5 + 100.0 * np.cumsum(noise),
        "log-normal": np.exp(3.0 * noise),
        "one outlier": outlier,
        "tiny": 1e-8 * noise,
        "huge": 1e90 * noise,
        "events": (rng.random(60) < 0.1).astype(int),
    }


@pytest.mark.parametrize("name", awkward())
def test_awkward_data_are_fitted(name):
    x = awkward()[name]
    model = GaussianHMM(x, 2)
    fit = acv.fit(model)
    assert fit.newton_decrement <= 1e-6
    if name == "one outlier":  # which leaves the other state alone
        sd = model.unpack(fit.params).emission.sd
        assert_allclose(sd.min(), np.delete(x, 30).std(), rtol=0.1)
    result = acv.infinitesimal_jackknife(fit, acv.folds.k_fold(model, 5))
    assert np.isfinite(result.fold_losses).all()


def test_derivatives_equal_autograd_where_the_only_path_is_unlikely(rng):
    """Moves and densities that both underflow: hessian and cross were nan, F was off by 1e298."""
    model = GaussianHMM(regimes(2, (12, 1)) * 20.0, 4)
    both = model.derivatives, acv.derivatives_of(ByAutograd(model))
    folds = acv.folds.Folds([[3], [4, 5]])
    for _ in range(6):
        params = model.initial_params(rng)
        params[: model.n_chain] += rng.choice([0.0, 745.0, -746.0, 3000.0, -1e6], model.n_chain)
        found, expected = (each.value_and_gradient(params, np.ones(12)) for each in both)
        assert_allclose(found[0], expected[0], rtol=1e-9)
        close(found[1], expected[1], 1e-6)
        close(*(np.asarray(each.hessian(params, np.ones(12))) for each in both), 1e-6)
        close(*(each.cross(params, folds) for each in both), 1e-6)


def test_units_are_those_given():
    x = regimes(shape=(60, 2))
    model = HMM([x], 2, Gaussian(centre=[1.0, 2.0], scale=[3.0, 4.0]))
    assert_allclose(model.frames.x, (x - [1.0, 2.0]) / [3.0, 4.0])
    raises("must have 2 entries, as x has", HMM, [x], 2, Gaussian(centre=[1.0], scale=[3.0]))
    y = np.where(np.arange(60) == 7, np.nan, np.arange(60) % 2)
    junk = np.where(np.isnan(y)[:, None], 9999.0, x)
    assert GLMHMM(y, junk, 2).emission == GLMHMM(y, x, 2).emission
    model = GLMHMM(y, pd.DataFrame(x, columns=["a", "b"]), 2)
    turned = pd.DataFrame(np.column_stack([y, x])[:, [0, 2, 1]], columns=["y", "b", "a"])
    params = np.arange(float(model.n_params))
    assert model.sequence_losses(params, [turned]) == model.sequence_losses(params)


def test_names_of_sequences_agree_and_a_series_gives_them():
    y, x = np.arange(60.0)[:, None] % 2, regimes(seed=3)
    ab, ba = (pd.Series([30, 30], list(names)) for names in ("ab", "ba"))
    dated = pd.DataFrame(x, pd.date_range("2020", periods=60))
    assert GLMHMM(y, dated, 2).index.equals(dated.index)
    raises(r"\['a', 'b'\] of y and \['b', 'a'\] of inputs: sort", GLMHMM, (y, ab), (x, ba), 2)
    frame = pd.DataFrame(x, pd.MultiIndex.from_product([list("ba"), range(30)]))
    assert GLMHMM((y, [30, 30]), (frame, ba), 2).index is ba.index
    raises(r"\['b', 'a'\] in X and \['a', 'b'\] in lengths: sort", GaussianHMM, (frame, ab), 2)
    with pytest.raises(ValueError, match=r"lengths \[30 --\] are masked: give all as numbers"):
        GaussianHMM((x, np.ma.array([30, 30], mask=[0, 1])), 2)
    x = pd.Series([*regimes().reshape(3, 20, 1)], list("bca"))
    plain, weight = GaussianHMM(list(x), 2), pd.Series([1.0, 2.0, 3.0], list("abc"))
    for door in (GaussianHMM, HMM):
        model = door(x, 2, sample_weight=weight)
        assert model.index.equals(x.index)
        assert model.sample_weight.tolist() == [2.0, 3.0, 1.0]
        assert all(map(np.array_equal, model.sequences, plain.sequences))


def test_an_impossible_frame_of_weight_zero_is_missing_and_one_without_inputs():
    fixed = np.array([[1.0, 0.0], [np.nan, np.nan], [np.nan, np.nan]])
    never = Categorical(3, 1.5, fixed=[[np.nan, np.nan, 0.0], [np.nan] * 3])
    x = np.r_[2.0, np.arange(40) % 3]
    raises("or let such frames be nan", acv.fit, HMM([x], 2, never, fixed=fixed))
    weighed = HMM([x], 2, never, fixed=fixed, sample_weight=np.arange(41) > 0)
    missing = HMM([np.where(np.arange(41) > 0, x, np.nan)], 2, never, fixed=fixed)
    folds = acv.Folds([[5], [9, 10]])
    found, expected = (acv.exact(acv.fit(model), folds) for model in (weighed, missing))
    assert_allclose(found.fold_losses, expected.fold_losses, rtol=1e-6)
    y, inputs = choices(np.random.default_rng(12), "bernoulli")
    inputs[0][3, 1] = np.nan
    model = GLMHMM(y, inputs, 2, sites="steps")
    assert np.flatnonzero(~model.observed).tolist() == [3, LENGTHS[0] + 2]


def test_named_params_of_another_shape_and_params_held_twice_are_refused():
    model = HMM([regimes()], 2)
    named = model.unpack(model.initial_params())
    other = HMM([regimes(shape=(60, 2))], 2)
    raises("2 probabilities each", model.pack, named._replace(initial=2.0 * named.initial))
    with pytest.raises(ValueError, match=r"named.emission.mean \(2, 2\): must be \(2, 1\)"):
        model.pack(named._replace(emission=other.unpack(other.initial_params()).emission))
    raises("named must be of type HMMParams", model.pack, None, error=TypeError)
    model = HMM([regimes()], 2, AutoRegression(1))
    held, free = model.hold(model.initial_params())
    raises("held already", held.hold, free)
    message = r"params of shape \(8,\) must be \(n_params,\), n_params = 4"
    raises(message, held.unpack, model.initial_params())
