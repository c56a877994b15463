"""Known states of an HMM: given, never weighted; against enumeration, counting and equal models."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.enumerate import path_scores, paths
from oracles.wrappers import raises
from scipy.special import logsumexp
from test_hmm import continuous

import acvlib as acv
from acvlib.folds import Folds
from acvlib.models import HMM, AutoRegressiveHMM, GaussianHMM

NAN = np.nan
KNOWN = [[NAN, 1, NAN, NAN, 0, NAN], [NAN, 2, NAN, NAN, NAN]]
FLAT = {"concentration": 1.0, "mean_scale": np.inf, "variance_prior": (-1.0, 0.0)}


def allowed(node, model, params, known):
    """(every path through the known states, log p(x, z) of each)."""
    initial, transition = model.log_chain(params)
    node = node + np.eye(len(node))[:, :1] * initial
    every = paths(*node.shape)
    every = every[((every == known) | np.isnan(known)).all(axis=1)]
    return every, path_scores(node, np.tile(transition, (len(node) - 1, 1, 1)), every)


def test_losses_posteriors_paths_and_predictions_are_sums_over_paths_through_known_states(rng):
    x = continuous(rng, (6, 5))
    steps, whole = (GaussianHMM(x, 3, sites=s, known_states=KNOWN) for s in ("steps", "sequences"))
    params = 0.4 * rng.normal(size=steps.n_params)
    found, best = steps.predict(params), whole.decode(params)
    for n, frames in enumerate(steps.pieces()):
        z = np.array(KNOWN[n])
        node = steps.log_densities(params)[frames]
        every, log_p = allowed(node, steps, params, z)
        total = logsumexp(log_p)
        assert_allclose(whole.heldout_loss(params, [n]), -total, rtol=1e-12)
        assert_allclose(whole.sequence_losses(params)[n], -total, rtol=1e-12)
        share = np.tensordot(np.exp(log_p - total), np.eye(3)[every], 1)
        assert_allclose(whole.posterior(params)[frames], share, atol=1e-12)
        assert_array_equal(best.states[frames], every[log_p.argmax()])
        assert_allclose(best.log_p[n], log_p.max(), rtol=1e-12)
        assert_allclose(found.log_density[frames].sum(), total, rtol=1e-12)
        for fold in ([1], [1, 2], [0, 4]):
            left = np.where(np.isin(np.arange(len(z)), fold)[:, None], 0.0, node)
            every, log_p = allowed(left, steps, params, z)
            expected = [logsumexp(log_p) - logsumexp(log_p + node[t, every[:, t]]) for t in fold]
            losses = steps.heldout_loss(params, np.array(fold) + frames.start)
            assert_allclose(losses, expected, rtol=1e-10)
    assert_allclose(steps.sequence_losses(params, x), GaussianHMM(x, 3).sequence_losses(params))


def test_a_frame_of_weight_zero_or_left_out_or_missing_keeps_its_state_and_a_sequence_does_not(rng):
    x = continuous(rng, (30, 20))
    known = [np.where(np.arange(len(own)) % 4 < 2, own[:, 0] > 1.5, NAN) for own in x]
    gone = (np.arange(30) % 7 == 0)[:, None]
    kind = partial(GaussianHMM, n_states=2, known_states=known)
    kinds = partial(kind, sites="steps")
    weight = np.append(~gone, np.ones(20))
    weighed = kinds([np.where(gone, 99.0, x[0]), x[1]], sample_weight=weight)
    missing = kinds([np.where(gone, NAN, x[0]), x[1]])
    fits = [acv.fit(model, tolerance=1e-9) for model in (weighed, missing)]
    assert_allclose(fits[0].params, fits[1].params, atol=1e-8)
    fit, folds = acv.fit(kinds(x)), Folds([[2, 3, 4], [31]])
    exact = acv.exact(fit, folds, 1e-9)
    assert_allclose(acv.from_scratch(fit, folds, 3).params, exact.params, atol=1e-5)
    single = acv.fit(GaussianHMM(x[0], 2, known_states=known[0]))
    raises("acv.exact on folds.leave_future_out", acv.leave_future_out, single, [20])
    absent = kind(x, sample_weight=[1.0, 0.0])
    alone = kind(x[:1], sites="sequences", known_states=known[:1])
    params = absent.initial_params()
    assert_allclose(params, alone.initial_params(), rtol=1e-12)
    values = [model.objective(params, np.ones(model.n_sites)) for model in (absent, alone)]
    assert_allclose(*values, rtol=1e-12)
    other = acv.fit(kinds(x, known_states=None))
    results = {"a": exact, "b": acv.exact(other, folds)}
    raises("their labels are not equal", acv.compare_models, results)


def test_where_all_states_are_known_a_fit_is_counting_and_a_fit_of_each_state(rng):
    z = [np.arange(40) // 5 % 3, np.arange(30) // 4 % 3, np.arange(36) // 3 % 3]
    z = [np.where(rng.random(len(own)) < 0.2, rng.integers(0, 3, len(own)), own) for own in z]
    x = [rng.normal(size=len(own)) + own % 2 for own in z]  # no clusters are these states
    model = GaussianHMM(x, 3, known_states=z, **FLAT | {"concentration": 1.5})
    fit = acv.fit(model, tolerance=1e-9)

    def counted(kept):
        moves = np.full((4, 3), 0.5)
        for n in kept:
            np.add.at(moves, (np.r_[0, 1 + z[n][:-1]], z[n]), 1.0)
        rows = moves / moves.sum(axis=1, keepdims=True)
        every, states = (np.concatenate([each[n] for n in kept]) for each in (x, z))
        parts = [every[states == k] for k in range(3)]
        return rows, np.array([[p.mean(), p.std()] for p in parts])

    exact = acv.exact(fit, Folds([[0], [2]]), 1e-9)
    every = [fit.params, *exact.params]
    for params, kept in zip(every, [(0, 1, 2), (1, 2), (0, 1)], strict=True):
        named, (rows, moments) = model.unpack(params), counted(kept)
        assert_allclose(np.vstack([named.initial, named.transition]), rows, rtol=1e-6)
        assert_allclose(np.hstack(named.emission), moments, rtol=1e-6)


def test_states_come_in_any_form_and_what_is_none_changes_no_bit(rng):
    x = continuous(rng, (12, 9))
    listed = [np.where(rng.random(len(own)) < 0.5, own[:, 0] > 1.5, NAN) for own in x]
    listed[1][:] = NAN
    plain = GaussianHMM(x, 2, known_states=listed)
    flat = np.concatenate(listed)
    masked = np.ma.masked_array(np.nan_to_num(flat, nan=-9).astype(int), np.isnan(flat))
    nullable = pd.Series(flat, dtype="Int8")
    for form in (flat, flat.tolist(), masked, nullable, (listed[0], None), plain.known_states):
        found = GaussianHMM(x, 2, known_states=form).known_states
        assert all(map(partial(np.array_equal, equal_nan=True), found, plain.known_states))
    frames = [pd.DataFrame(own, pd.RangeIndex(7, 7 + len(own))) for own in x]
    series = [pd.Series(own, frame.index)[::-1] for own, frame in zip(listed, frames, strict=True)]
    assert_array_equal(GaussianHMM(frames, 2, known_states=series).labels[0], plain.labels[0])
    raises(r"index of known_states\[0\]", GaussianHMM, frames, 2, known_states=series[::-1])
    for sites in ("sequences", "steps"):
        unknown, none = (
            acv.fit(GaussianHMM(x, 2, sites=sites, known_states=known))
            for known in ([np.full(12, NAN), None], None)
        )
        assert_array_equal(unknown.params, none.params)
    ignored = AutoRegressiveHMM(x, 2, known_states=[np.r_[1, [NAN] * 11], None])
    assert ignored.frames.states is None


BAD = {
    r"known_states of shape \(20,\) must be \(21,\)": np.zeros(20),
    r"known_states\[1\] of shape \(8,\) must be \(9,\)": [None, np.zeros(8)],
    r"known_states are of 1 sequences, not 2: give": [np.zeros(12)],
    r"known_states\[0\] is 2 at frame 3: must be whole numbers from 0 to 1": [
        [0, 1, 1, 2] * 3,
        None,
    ],
    r"known_states\[0\] is -1 at frame 0": [-np.ones(12), None],
    r"known_states\[1\] is 0.5 at frame 0": [None, np.full(9, 0.5)],
    r"known_states\[1\] is inf at": [None, np.full(9, np.inf)],
    r"known_states\[1\] holds labels: .*\.map\({'rem': 0, 'wake': 1}\)": [
        None,
        ["wake", "rem", NAN],
    ],
    "give an array of states for each sequence": "wake",
}


@pytest.mark.parametrize("words", BAD)
def test_what_is_no_state_is_named(words):
    x = continuous(np.random.default_rng(0), (12, 9))
    raises(words, GaussianHMM, x, 2, known_states=BAD[words])


def test_states_that_fixed_forbids_are_named_and_known_ones_number_clusters(rng):
    fixed = [[1, 0, 0], [NAN, NAN, 0], [0, NAN, NAN], [0, 0, 1]]
    x = [np.repeat([0.0, 5.0, 9.0], 8)[:, None] + rng.normal(size=(24, 1)) for _ in range(3)]
    known = np.full(24, NAN)
    known[[2, 20]] = 0, 2
    assert np.isfinite(acv.fit(HMM(x, 3, fixed=fixed, known_states=[known, None, known])).objective)
    known[3] = 2
    message = "known state 2 of frame 3 of sequence 1 cannot be reached .* `fixed` has zeros"
    raises(message, HMM, x, 3, fixed=fixed, known_states=[None, known, None])
    known[:] = [*[2] * 8, *[NAN] * 8, *[1] * 8]
    model = HMM(x, 3, known_states=[known, None, None])
    start = model.initial_params(rng)
    assert_allclose(model.unpack(start).emission.mean[:, 0], [5.0, 9.0, 0.0], atol=1.0)
    assert model.matched(start, start[::-1]) is start
