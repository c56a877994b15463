"""Known states of an HMM: given, never weighted; against enumeration, counting and equal models."""

from functools import partial

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose, assert_array_equal
from oracles.enumerate import scored_paths
from oracles.wrappers import raises
from scipy.special import logsumexp
from test_hmm import continuous

import acvlib as acv
from acvlib.folds import Folds
from acvlib.models import HMM, AutoRegressiveHMM, GaussianHMM

NAN = np.nan
KNOWN = [[NAN, 1, NAN, NAN, 0, NAN], [NAN, 2, NAN, NAN, NAN]]


def test_losses_posteriors_paths_and_predictions_are_sums_over_paths_through_known_states(rng):
    x = continuous(rng, (6, 5))
    steps, whole = (GaussianHMM(x, 3, sites=s, known_states=KNOWN) for s in ("steps", "sequences"))
    params = 0.4 * rng.normal(size=steps.n_params)
    predicted, best = steps.predict(params), whole.decode(params)
    for n, frames in enumerate(steps.pieces()):
        z = np.array(KNOWN[n])
        node, chain = steps.log_densities(params)[frames], steps.log_chain(params)
        every, log_p = scored_paths(node, *chain, z)
        total = logsumexp(log_p)
        assert_allclose(whole.heldout_loss(params, [n]), -total, rtol=1e-12)
        assert_allclose(whole.sequence_losses(params)[n], -total, rtol=1e-12)
        share = np.tensordot(np.exp(log_p - total), np.eye(3)[every], 1)
        assert_allclose(whole.posterior(params)[frames], share, atol=1e-12)
        assert_array_equal(best.states[frames], every[log_p.argmax()])
        assert_allclose(best.log_p[n], log_p.max(), rtol=1e-12)
        assert_allclose(predicted.log_density[frames].sum(), total, rtol=1e-12)
        for fold in ([1], [1, 2], [0, 4]):
            left = np.where(np.isin(np.arange(len(z)), fold)[:, None], 0.0, node)
            every, log_p = scored_paths(left, *chain, z)
            with_frame = [logsumexp(log_p + node[t, every[:, t]]) for t in fold]
            losses = steps.heldout_loss(params, np.array(fold) + frames.start)
            assert_allclose(losses, logsumexp(log_p) - with_frame, rtol=1e-10)
    assert_allclose(steps.sequence_losses(params, x), GaussianHMM(x, 3).sequence_losses(params))


def test_a_frame_left_out_keeps_its_state_and_a_sequence_of_weight_zero_does_not(rng):
    x = continuous(rng, (30, 20))
    known = [np.where(np.arange(len(part)) % 4 < 2, part[:, 0] > 1.5, NAN) for part in x]
    kind = partial(GaussianHMM, x, 2, known_states=known)
    fit, folds = acv.fit(kind(sites="steps")), Folds([[2, 3, 4], [31]])
    exact = acv.exact(fit, folds, 1e-9)
    assert_allclose(acv.from_scratch(fit, folds, 3).params, exact.params, atol=1e-5)
    other = acv.exact(acv.fit(GaussianHMM(x, 2, sites="steps")), folds)
    raises("their labels are not equal", acv.compare_models, {"a": exact, "b": other})
    single = acv.fit(GaussianHMM(x[0], 2, known_states=known[0]))
    raises("acv.exact on folds.leave_future_out", acv.leave_future_out, single, [20])
    absent = kind(sample_weight=[1.0, 0.0])
    alone = GaussianHMM(x[:1], 2, sites="sequences", known_states=known[0])
    params = absent.initial_params()
    assert_allclose(params, alone.initial_params(), rtol=1e-12)
    values = [model.objective(params, np.ones(model.n_sites)) for model in (absent, alone)]
    assert_allclose(*values, rtol=1e-12)


def test_where_all_states_are_known_a_fit_is_counting_and_a_fit_of_each_state(rng):
    draws = [(rng.random(40), rng.integers(0, 3, 40)) for _ in range(3)]
    z = [np.where(u < 0.2, other, np.arange(40) // 5 % 3) for u, other in draws]
    x = [rng.normal(size=40) + states % 2 for states in z]  # no clusters are these states
    flat = {"concentration": 1.5, "mean_scale": np.inf, "variance_prior": (-1.0, 0.0)}
    model = GaussianHMM(x, 3, known_states=z, **flat)
    fit = acv.fit(model, tolerance=1e-9)
    every = [fit.params, *acv.exact(fit, Folds([[0], [2]]), 1e-9).params]
    for params, kept in zip(every, [(0, 1, 2), (1, 2), (0, 1)], strict=True):
        moves = np.full((4, 3), 0.5)
        for n in kept:
            np.add.at(moves, (np.r_[0, 1 + z[n][:-1]], z[n]), 1.0)
        named = model.unpack(params)
        rows = np.vstack([named.initial, named.transition])
        assert_allclose(rows, moves / moves.sum(axis=1, keepdims=True), rtol=1e-6)
        frames, states = (np.concatenate([each[n] for n in kept]) for each in (x, z))
        parts = [frames[states == k] for k in range(3)]
        moments = [[part.mean(), part.std()] for part in parts]
        assert_allclose(np.hstack(named.emission), moments, rtol=1e-6)


def test_states_come_in_any_form_and_what_is_none_changes_no_bit(rng):
    x = continuous(rng, (12, 9))
    first = np.where(rng.random(12) < 0.5, x[0][:, 0] > 1.5, NAN)
    flat = np.append(first, np.full(9, NAN))
    for form in (flat, pd.Series(flat, dtype="Int8"), (first, None)):
        known = GaussianHMM(x, 2, known_states=form).known_states
        assert_array_equal(np.concatenate(known), flat)
    frames = [pd.DataFrame(part, pd.RangeIndex(7, 7 + len(part))) for part in x]
    turned = [pd.Series(first, frames[0].index)[::-1], None]
    assert_array_equal(GaussianHMM(frames, 2, known_states=turned).known_states[0], first)
    raises(r"index of known_states\[1\]", GaussianHMM, frames, 2, known_states=turned[::-1])
    for sites in ("sequences", "steps"):
        unknown = [np.full(12, NAN), None], None
        both = [acv.fit(GaussianHMM(x, 2, sites=sites, known_states=known)) for known in unknown]
        assert_array_equal(both[0].params, both[1].params)
    ignored = AutoRegressiveHMM(x, 2, known_states=[np.r_[1, [NAN] * 11], None])
    assert ignored.frames.states is None


def test_states_that_fixed_forbids_are_named_and_known_ones_number_clusters(rng):
    fixed = [[1, 0, 0], [NAN, NAN, 0], [0, NAN, NAN], [0, 0, 1]]
    x = [np.repeat([0.0, 5.0, 9.0], 8)[:, None] + rng.normal(size=(24, 1)) for _ in range(3)]
    known = np.full(24, NAN)
    known[[2, 20]] = 0, 2
    assert acv.fit(HMM(x, 3, fixed=fixed, known_states=[known, None, known])).objective < np.inf
    known[3] = 2
    message = "known state 2 of frame 3 of sequence 1 cannot be reached .* `fixed` has zeros"
    raises(message, HMM, x, 3, fixed=fixed, known_states=[None, known, None])
    known[:] = [*[2] * 8, *[NAN] * 8, *[1] * 8]
    model = HMM(x, 3, known_states=[known, None, None])
    start = model.initial_params(rng)
    assert_allclose(model.unpack(start).emission.mean[:, 0], [5.0, 9.0, 0.0], atol=1.0)
    assert model.matched(start, start[::-1]) is start
