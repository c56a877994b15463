"""The linear-chain CRF against enumeration of label sequences, autograd, and delete-and-refit."""

from dataclasses import replace
from itertools import product

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad, hessian, jacobian
from autograd.scipy.special import logsumexp
from hypothesis import given
from hypothesis import strategies as st
from oracles.refit import refit
from oracles.wrappers import ByAutograd

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.models import LinearChainCRF
from acvlib.trials import UnconvergedFit
from acvlib.weighting import hide_labels

K, LENGTHS = 3, (1, 4, 2, 3, 1)
D, FEW = 2 * K + K * K, 8  # parameters with three tags, and with two


def data(seed, lengths=LENGTHS, n_tags=K):
    rng = np.random.default_rng(seed)
    emissions = [rng.normal(0, 1.5, (t, n_tags)) for t in lengths]
    return emissions, [rng.integers(0, n_tags, t) for t in lengths]


def crf(scheme=None, seed=0, ridge=0.1, n_tags=K):
    return LinearChainCRF(*data(seed, n_tags=n_tags), ridge, scheme)


def path_scores(params, scores):
    """Score and labels of every label sequence of a sentence."""
    n_tags = scores.shape[1]
    start, links, end = (
        params[:n_tags],
        params[n_tags:-n_tags].reshape(n_tags, n_tags),
        params[-n_tags:],
    )
    paths = np.array(list(product(range(n_tags), repeat=len(scores))))
    total = (
        start[paths[:, 0]] + end[paths[:, -1]] + scores[np.arange(len(scores)), paths].sum(axis=1)
    )
    return total + anp.sum(links[paths[:, :-1], paths[:, 1:]], axis=1), paths


def enumerated(model, params, weights):
    """F by a sum over all label sequences, differentiable in params and weights (Eq. 12, 13)."""
    total, t = 0.5 * anp.sum(model.ridge * params**2), 0
    for n, (scores, labels) in enumerate(zip(model.emissions, model.labels, strict=True)):
        score, paths = path_scores(params, scores)
        own = weights[t : t + len(labels)] if model.scheme else weights[n]
        t += len(labels)
        if model.scheme:
            known = 1.0
            for place, label in enumerate(
                labels
            ):  # autograd's prod divides by its factors, which may be 0
                known = known * (1.0 - own[place] * (paths[:, place] != label))
            total = total + logsumexp(score) - anp.log(anp.sum(anp.exp(score) * known))
        else:
            total = total + own * (logsumexp(score) - score[(paths == labels).all(axis=1)][0])
    return total


def some_weights(model, rng):
    return [
        np.ones(model.n_sites),
        rng.uniform(0.2, 0.9, model.n_sites),
        rng.integers(0, 2, model.n_sites) * 1.0,
    ]


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_objective_gradient_and_hessian_are_those_of_enumeration(scheme):
    rng = np.random.default_rng(1)
    model = crf(scheme, ridge=rng.uniform(0.05, 0.3, D))
    params = rng.normal(size=D)
    for weights in some_weights(model, rng):
        value, gradient = model.derivatives.value_and_gradient(params, weights)
        assert value == pytest.approx(enumerated(model, params, weights), rel=1e-12)
        assert gradient == pytest.approx(grad(enumerated, 1)(model, params, weights), abs=1e-10)
        expected = hessian(enumerated, 1)(model, params, weights)
        matrix = np.asarray(model.derivatives.hessian(params, weights))
        assert matrix == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_autograd_path_agrees_with_enumeration(scheme):
    model, rng = crf(scheme), np.random.default_rng(2)
    params = rng.normal(size=D)
    for weights in some_weights(model, rng):
        assert model.objective(params, weights) == pytest.approx(
            enumerated(model, params, weights), rel=1e-12
        )
    slow, weights = ByAutograd(model), np.ones(model.n_sites)
    matrix = np.asarray(derivatives_of(slow).hessian(params, weights))
    fast = np.asarray(model.derivatives.hessian(params, weights))
    assert matrix == pytest.approx(fast, abs=1e-10)
    expected = jacobian(grad(enumerated, 1), 2)(model, params, weights)
    assert derivatives_of(slow).cross_matrix(params, weights) == pytest.approx(expected, abs=1e-10)
    assert model.derivatives.cross_matrix(params, weights) == pytest.approx(expected, abs=1e-10)


def test_check_model_passes_on_both_schemes():
    rng = np.random.default_rng(3)
    for scheme in (None, hide_labels):
        slow = ByAutograd(crf(scheme))
        assert max(acv.check_model(slow, rng.normal(size=D), rng).values()) < 1e-4


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_fold_paths_agree_with_autograd(scheme):
    model, rng = crf(scheme, n_tags=2), np.random.default_rng(4)
    slow, folds = ByAutograd(model), Folds([np.array([1]), np.array([0, 3, 4])])
    fast, plain = model.derivatives, derivatives_of(slow)
    vectors = rng.normal(size=(2, FEW))
    for params in (rng.normal(size=(2, FEW)), rng.normal(size=FEW)):
        pairs = zip(
            fast.fold_gradients(params, folds), plain.fold_gradients(params, folds), strict=True
        )
        for found, expected in pairs:
            assert found == pytest.approx(expected, abs=1e-10)
        solvers = [each.fold_hessians(params, folds, 0.5) for each in (fast, plain)]
        assert solvers[0].matrices == pytest.approx(solvers[1].matrices, abs=1e-10)
        assert solvers[0].solve(vectors) == pytest.approx(solvers[1].solve(vectors), abs=1e-8)
        losses = zip(fast.heldout(params, folds), plain.heldout(params, folds), strict=True)
        assert all(found == pytest.approx(expected, abs=1e-10) for found, expected in losses)
    assert fast.cross(params, folds) == pytest.approx(plain.cross(params, folds), abs=1e-10)
    fit = acv.fit(model)
    for rung in (acv.infinitesimal_jackknife, acv.newton_step):
        assert rung(fit, folds).params == pytest.approx(
            rung(replace(fit, model=slow), folds).params, abs=1e-8
        )


def test_scored_sites_are_picked_from_the_omitted_ones():
    model, params = crf(hide_labels), np.random.default_rng(4).normal(size=D)
    every, some = Folds([np.array([1, 2, 4])]), Folds([np.array([1, 2, 4])], [np.array([2])])
    losses = model.derivatives.heldout(params, every)[0]
    assert model.derivatives.heldout(params, some)[0] == pytest.approx(losses[1:2])


def test_sums_side_by_side_are_those_of_single_sentences():
    """More sentences than stand side by side, one long enough for its product to be cut."""
    lengths = (700, *[2] * 150, 1, 3, 2)
    own = LinearChainCRF(*data(5, lengths)).derivatives
    rng = np.random.default_rng(5)
    params, weights = rng.normal(0, 3, D), rng.uniform(size=len(lengths))
    losses, gradients = own._each_loss(params, np.arange(len(lengths)))
    value, total = own._whole(params, weights)
    assert value == pytest.approx(weights @ losses, rel=1e-12)
    assert total == pytest.approx(weights @ gradients, rel=1e-9)


def test_no_sentence_has_weight():
    model, params = crf(), np.random.default_rng(5).normal(size=D)
    value, gradient = model.derivatives.value_and_gradient(params, np.zeros(len(LENGTHS)))
    assert value == pytest.approx(0.05 * params @ params)
    assert gradient == pytest.approx(0.1 * params)
    hessian = np.asarray(model.derivatives.hessian(params, np.zeros(len(LENGTHS))))
    assert hessian == pytest.approx(0.1 * np.eye(D))


def test_models_copy_what_they_are_given():
    emissions, labels = data(0)
    model = LinearChainCRF(emissions, labels)
    emissions[0][:] = np.nan
    assert np.isfinite(model.emissions[0]).all()
    with pytest.raises(ValueError, match="read-only"):
        model.labels[0][:] = 1


def test_pack_is_the_inverse_of_unpack():
    model, params = crf(), np.random.default_rng(5).normal(size=D)
    np.testing.assert_array_equal(model.pack(model.unpack(params)), params)


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_exact_is_delete_and_refit(scheme):
    model = crf(scheme, ridge=0.3, n_tags=2)
    fit, folds = acv.fit(model), [np.array([0]), np.array([2, 3])]
    result = acv.exact(fit, folds)
    assert result.diagnostics["converged"].all()
    assert result.diagnostics["decrement"].max() <= 1e-6
    for params, fold in zip(result.params, folds, strict=True):
        weights = acv.folds.weights(model.n_sites, fold)
        refitted = refit(lambda p, w: enumerated(model, p, w), fit.params, weights)
        assert params == pytest.approx(refitted, abs=1e-5)


def test_folds_whose_hessian_is_indefinite_are_refitted_by_newtons_method():
    """Most labels hidden and sure transitions: every fold's chord would start at a saddle."""
    emissions, labels = data(12, (6, 6, 6), 2)
    model = LinearChainCRF([0.0 * e for e in emissions], labels, 0.05, hide_labels)
    fit, folds = acv.fit(model), [np.setdiff1d(np.arange(18), keep) for keep in ([0, 9], [3, 17])]
    assert model.derivatives.fold_hessians(fit.params, Folds(folds)).indefinite.all()
    result = acv.exact(fit, folds)
    assert result.diagnostics["converged"].all()
    assert not result.indefinite.any()


def test_exact_is_the_same_from_far_away():
    model = crf(ridge=0.1)
    fit, folds = acv.fit(model), acv.folds.leave_one_out(len(LENGTHS))
    away = acv.fit_at(model, fit.params + np.random.default_rng(6).normal(size=D))
    with pytest.warns(UnconvergedFit):
        far = acv.exact(away, folds)
    assert fit.standard_errors_between(far.params, acv.exact(fit, folds).params).max() < 1e-5


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_jackknife_error_falls_fourfold_when_the_weights_change_is_halved(scheme):
    model = crf(scheme, ridge=0.3, n_tags=2)
    fit = acv.fit(model, tolerance=1e-10)
    sure = np.concatenate(acv.no_adjustment(fit, acv.folds.leave_one_out(model.n_sites)).losses)
    fold = np.sort(
        np.argsort(sure)[:2]
    )  # a surprising label moves the params by much more than a quadratic term
    step = acv.infinitesimal_jackknife(fit, [fold]).params[0] - fit.params
    errors = []
    for change in (0.2, 0.1, 0.05):
        weights = np.ones(model.n_sites)
        weights[fold] -= change
        refitted = refit(lambda p, w: enumerated(model, p, w), fit.params, weights, gtol=1e-12)
        errors.append(np.linalg.norm(refitted - fit.params - change * step))
    assert 3.0 < errors[0] / errors[1] < 5.0
    assert 3.4 < errors[1] / errors[2] < 4.6


def test_frozen_error_falls_with_the_square_of_a_folds_influence():
    """One sentence among n copies of the data: its step falls as 1/n, what is left as 1/n^2."""
    errors = []
    for copies in (4, 8, 16):
        emissions, labels = data(7)
        model = LinearChainCRF(emissions * copies, labels * copies, 0.1 * copies)
        fit = acv.fit(model, tolerance=1e-10)
        rungs = (
            acv.frozen_newton(fit, [np.array([3])]),
            acv.exact(fit, [np.array([3])], 1e-10),
        )
        errors.append(np.linalg.norm(rungs[0].params - rungs[1].params))
    assert 3.0 < errors[0] / errors[1] < 5.0
    assert 3.4 < errors[1] / errors[2] < 4.6


def test_of_one_hidden_label_the_jackknife_is_the_frozen_step_over_its_probability():
    model = crf(hide_labels)
    fit, folds = acv.fit(model, tolerance=1e-10), acv.folds.leave_one_out(model.n_sites)
    ij, frozen = (
        acv.infinitesimal_jackknife(fit, folds),
        acv.frozen_newton(fit, folds, rescale=False),
    )
    probability = np.exp(-np.concatenate(acv.no_adjustment(fit, folds).losses))
    expected = fit.params + (frozen.params - fit.params) / probability[:, None]
    assert ij.params == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_heldout_loss_by_enumeration(scheme):
    model, params = crf(scheme), np.random.default_rng(8).normal(size=D)
    fold = np.array([1, 2, 4])
    weights, losses = acv.folds.weights(model.n_sites, fold), model.heldout_loss(params, fold)
    for site, loss in zip(fold, losses, strict=True):
        with_it = weights + (np.arange(model.n_sites) == site)
        change = enumerated(model, params, with_it) - enumerated(model, params, weights)
        assert loss == pytest.approx(change, abs=1e-10)


def test_marginals_and_viterbi_by_enumeration():
    model, params = crf(), np.random.default_rng(9).normal(size=D)
    for scores, marginal, best in zip(
        model.emissions, model.marginals(params), model.predict(params), strict=True
    ):
        score, paths = path_scores(params, scores)
        probability = np.exp(score - logsumexp(score))
        assert marginal == pytest.approx(
            np.einsum("p,ptk->tk", probability, np.eye(K)[paths]), abs=1e-12
        )
        assert (best == paths[np.argmax(score)]).all()
    other = [np.zeros((2, K))]
    assert model.marginals(params, other)[0].sum(axis=1) == pytest.approx(1.0)
    assert len(model.predict(params, other)[0]) == 2


@given(st.integers(0, 10_000), st.floats(-50, 50), st.floats(-50, 50))
def test_shifts_that_cancel_change_no_probability(seed, shift, tilt):
    """All transitions up; label k's start up, its end down, its transitions tilted to match."""
    model, rng = crf(seed=seed % 7), np.random.default_rng(seed)
    params, turn = rng.normal(size=D), tilt * rng.uniform(-1, 1, K)
    moved = np.concatenate([turn, (shift + turn[None, :] - turn[:, None]).ravel(), -turn])
    everything = np.arange(model.n_sites)
    losses = [model.heldout_loss(p, everything) for p in (params, params + moved)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)


@given(st.integers(0, 10_000))
def test_covariance_is_positive_and_sums_over_sentences(seed):
    model, rng = crf(seed=seed % 5), np.random.default_rng(seed)
    params, covariance = rng.normal(0, 2, D), model.derivatives._covariance
    single = [covariance(params, unit) for unit in np.eye(model.n_sites)]
    assert covariance(params, np.ones(model.n_sites)) == pytest.approx(sum(single), abs=1e-9)
    assert np.linalg.eigvalsh(sum(single))[0] > -1e-9


def test_scores_far_apart_do_not_overflow():
    emissions, labels = data(10)
    model = LinearChainCRF([140.0 * np.sign(e) for e in emissions], labels, 0.1)
    value, gradient = model.derivatives.value_and_gradient(
        np.linspace(-70, 70, D), np.ones(model.n_sites)
    )
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_params_that_stray_are_summed_exactly(scheme):
    model = crf(scheme)
    folds = Folds([np.array([0]), np.array([3])])
    points = np.array([np.zeros(D), np.where(np.arange(D) == K, -500.0, 0.0)])
    for far in (np.full(D, 1e6), np.linspace(-1e6, 1e6, D)):
        all_known = enumerated(crf(), far, np.ones(len(model.labels)))  # as without a scheme
        found = model.objective(far, np.ones(model.n_sites))
        assert found == pytest.approx(all_known, rel=1e-12)
    values, gradients = model.derivatives.fold_gradients(points, folds)
    for params, fold, value, gradient in zip(points, folds, values, gradients, strict=True):
        weights = acv.folds.weights(model.n_sites, fold)
        assert value == pytest.approx(enumerated(model, params, weights), rel=1e-12)
        assert model.objective(params, weights) == pytest.approx(value, rel=1e-12)
        expected = grad(enumerated, 1)(model, params, weights)
        assert gradient == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.isfinite(model.derivatives.heldout(points, folds)[0]).all()
    assert model.marginals(points[1])[1].sum(axis=1) == pytest.approx(1.0)


def test_a_hidden_label_that_the_others_exclude_has_an_infinite_loss():
    """Without a warning: those of the tests are errors."""
    model = crf(hide_labels)
    far = np.zeros(D)
    far[model.labels[0][0]] = -1000.0  # the bias of the first label's tag
    folds = Folds([np.array([0]), np.array([2])])
    losses = [fold[0] for fold in model.derivatives.heldout(far, folds)]
    assert losses[0] == np.inf
    assert losses[1] > 0


def test_unseen_transitions_have_a_finite_optimum():
    emissions, labels = data(11)
    model = LinearChainCRF(emissions, [np.minimum(z, 1) for z in labels], 1e-5)
    fit = acv.fit(model)
    assert fit.newton_decrement <= 1e-6
    assert abs(fit.params).max() < 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [np.array([], int), np.array([0])]}, "sentence 0 is empty"),
        ({"labels": [np.array([0, 3]), np.array([0])]}, "0 ... 2, not 0 ... 3"),
        ({"labels": [np.array([0, -1]), np.array([0])]}, "not -1 ... 0"),
        ({"labels": [np.array([0.0, 1.0]), np.array([0])]}, "sentence 0"),
        ({"labels": [np.array([0]), np.array([0])]}, "do not fit"),
        ({"labels": [np.array([0, 1])]}, "2 sentences of emission scores, 1 of labels"),
        (
            {"emissions": [np.full((2, K), np.nan), np.zeros((1, K))]},
            "sentence 0: scores must be finite",
        ),
        (
            {"emissions": [np.zeros((2, K)), np.array([[0.0, 0.0, 400.0]])]},
            "sentence 1: scores .* 300 nats",
        ),
        ({"ridge": 0.0}, "ridge = 0.0: must be above 0"),
        ({"ridge": np.ones(3)}, "must be > 0 and finite, one number or 15, one a parameter"),
        ({"ridge": np.full(15, np.inf)}, "at least inf: must be > 0 and finite"),
        ({"scheme": acv.weighting.keep_latents}, "scheme must be"),
    ],
)
def test_bad_input_is_named(change, message):
    good = {
        "emissions": [np.zeros((2, K)), np.zeros((1, K))],
        "labels": [np.array([0, 1]), np.array([2])],
    }
    with pytest.raises(ValueError, match=message):
        LinearChainCRF(**(good | change))


@pytest.mark.parametrize("n_tags", [1, 2])
def test_leaving_sentences_out_is_deletion(n_tags):
    emissions, labels = data(13, n_tags=n_tags)
    model = LinearChainCRF(emissions, labels, 0.3)
    folds = [np.array([0]), np.array([1, 3])]
    result = acv.exact(acv.fit(model), folds)
    for fold, params in zip(folds, result.params, strict=True):
        left = np.setdiff1d(np.arange(len(labels)), fold)
        deleted = LinearChainCRF([emissions[n] for n in left], [labels[n] for n in left], 0.3)
        assert params == pytest.approx(acv.fit(deleted).params, abs=1e-6)


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_folds_that_leave_nothing_are_refused_and_one_of_a_whole_sentence_is_right(scheme):
    model = crf(scheme, ridge=0.3, n_tags=2)
    fit = acv.fit(model)
    with pytest.raises(ValueError, match="nothing is left to fit"):
        acv.exact(fit, [np.arange(model.n_sites)])
    fold = np.arange(1, 5)  # under hide_labels, every label of the second sentence
    params = acv.exact(fit, [fold]).params[0]
    weights = acv.folds.weights(model.n_sites, fold)
    refitted = refit(lambda p, w: enumerated(model, p, w), fit.params, weights)
    assert params == pytest.approx(refitted, abs=1e-5)


def test_large_scores_of_any_level_give_the_same_objective():
    model = crf()
    params = np.random.default_rng(14).normal(size=D)
    raised = LinearChainCRF([scores + 2.0**14 for scores in model.emissions], model.labels, 0.1)
    ones = np.ones(model.n_sites)
    assert raised.objective(params, ones) == pytest.approx(model.objective(params, ones), rel=1e-9)


@pytest.mark.parametrize("scheme", [None, hide_labels])
def test_bad_folds_and_weights_are_refused(scheme):
    model = crf(scheme)
    for fold in ([], [99], [-1], [True, False], [0.5]):
        with pytest.raises(ValueError, match="fold"):
            model.heldout_loss(np.zeros(D), fold)
    for method in (model.derivatives.value_and_gradient, model.derivatives.hessian):
        with pytest.raises(ValueError, match="one weight a site"):
            method(np.zeros(D), np.ones(2))


def test_bad_input_of_methods():
    model = crf()
    with pytest.raises(ValueError, match="no sentences"):
        model.predict(np.zeros(D), [])
    with pytest.raises(ValueError, match="outside"):
        acv.no_adjustment(acv.fit(model), [np.array([99])])
    with pytest.raises(ValueError, match=r"scores \(2, 2\)"):
        model.predict(np.zeros(D), [np.zeros((2, 2))])
    with pytest.raises(ValueError, match="one weight a site"):
        model.objective(np.zeros(D), np.ones(3))
