"""Conditional random fields against enumeration of label sequences, and delete-and-refit."""

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad, hessian, jacobian
from autograd.scipy.special import logsumexp
from numpy.testing import assert_allclose
from oracles.enumerate import scored_paths
from oracles.refit import refit
from oracles.wrappers import raises

import acvlib as acv
from acvlib.adapters.crfsuite import FeatureCRF
from acvlib.folds import Folds
from acvlib.models import LinearChainCRF
from acvlib.weighting import hide_labels

K, LENGTHS = 3, (1, 4, 2, 3, 1)
D = 2 * K + K * K
by_scheme = pytest.mark.parametrize("scheme", [None, hide_labels])


def data(seed, lengths=LENGTHS, n_tags=K):
    rng = np.random.default_rng(seed)
    emissions = [rng.normal(0, 1.5, (t, n_tags)) for t in lengths]
    return emissions, [rng.integers(0, n_tags, t) for t in lengths]


def crf(scheme=None):
    return LinearChainCRF(*data(0), 0.1, scheme)


def chains(scheme, weights=1.0):
    return LinearChainCRF(*data(1, n_tags=2), 0.3, scheme, weights)


def features(scheme, weights=1.0):
    """Tokens of two attributes of four, with numbers; not all pairs have a weight."""
    rng = np.random.default_rng(3)
    tokens = [[{"ab"[n % 2]: n / 3, "cd"[n % 3 % 2]: 1} for n in range(t)] for t in LENGTHS]
    labels = [["AB"[k] for k in rng.integers(0, 2, t)] for t in LENGTHS]
    return FeatureCRF(tokens, labels, 0.3, scheme, sample_weight=weights)


by_kind = pytest.mark.parametrize("kind", [chains, features])


def scores_of(model, params):
    """(scores (T, K) of each sentence with starts and ends, transitions), through autograd."""
    k = model.tokens.n_labels
    if isinstance(model, LinearChainCRF):
        every = []
        for own in model.emissions:
            ends = np.eye(len(own))[[0, -1]].T
            every.append(own + ends @ anp.array([params[:k], params[-k:]]))
        return every, params[k:-k].reshape(k, k)
    attributes = model.sentences.matrix.toarray()
    n_pairs = k * (attributes.shape[1] + k)
    pairs = np.eye(n_pairs)[:, model.free] @ params
    scores = attributes @ pairs[: -k * k].reshape(-1, k)
    starts = model.sentences.starts
    every = [scores[a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]
    return every, pairs[-k * k :].reshape(k, k)


def enumerated(model, params, weights):
    """F by a sum over all label sequences, differentiable in params and weights (Eq. 12, 13)."""
    total = 0.5 * anp.sum(model.ridge * params**2)
    every, links = scores_of(model, params)
    for n, scores in enumerate(every):
        every_path, score = scored_paths(scores, np.zeros(len(links)), links)
        first = model.tokens.starts[n]
        labels = model.tokens.tags[first : first + len(scores)]
        if model.scheme:
            known = 1.0
            for place, label in enumerate(labels):
                # autograd's prod divides by its factors, which may be 0
                known = known * (1.0 - weights[first + place] * (every_path[:, place] != label))
            loss = logsumexp(score) - anp.log(anp.sum(anp.exp(score) * known))
        else:
            loss = weights[n] * (logsumexp(score) - score[(every_path == labels).all(axis=1)][0])
        total = total + model.sample_weight[n] * loss
    return total


def slopes_and_hessian(model, params, weights):
    every = grad(enumerated, 1), hessian(enumerated, 1)
    return [function(model, params, weights) for function in every]


@by_scheme
@by_kind
def test_derivatives_are_those_of_enumeration(kind, scheme, rng):
    model = kind(scheme, np.append(0.0, rng.uniform(0.2, 3.0, 4)))
    fast = model.derivatives
    params = 0.7 * rng.normal(size=model.n_params)
    ones = np.ones(model.n_sites)
    random = rng.uniform(0.2, 0.9, model.n_sites)
    for weights in (ones, 0.0 * ones, random, rng.integers(0, 2, model.n_sites) * 1.0):
        value, gradient = fast.value_and_gradient(params, weights)
        slopes, matrix = slopes_and_hessian(model, params, weights)
        assert value == pytest.approx(enumerated(model, params, weights), rel=1e-12)
        assert model.objective(params, weights) == value
        assert_allclose(gradient, slopes, atol=1e-10)
        if kind is chains:
            assert_allclose(np.asarray(fast.hessian(params, weights)), matrix, atol=1e-10)
    sites = np.flatnonzero(model.observed)
    folds = Folds([sites[:1], sites[1:4]])
    cross = jacobian(grad(enumerated, 1), 2)(model, params, ones)
    assert_allclose(fast.cross_matrix(params, ones), cross, atol=1e-10)
    expected = [-cross[:, fold].sum(axis=1) for fold in folds]
    assert_allclose(fast.cross(params, folds), expected, atol=1e-10)
    for points in (params, np.array([params, params - 0.1])):
        values, gradients = fast.fold_gradients(points, folds)
        losses = fast.heldout(points, folds)
        solver = fast.fold_hessians(points, folds, 0.5)
        vectors = rng.normal(size=gradients.shape)
        solved = solver.solve(vectors)
        for o, (fold, point) in enumerate(zip(folds, np.atleast_2d(points), strict=False)):
            weights = acv.folds.weights(model.n_sites, fold)
            slopes, matrix = slopes_and_hessian(model, point, weights)
            assert values[o] == pytest.approx(enumerated(model, point, weights), rel=1e-12)
            assert_allclose(gradients[o], slopes, atol=1e-10)
            matrix += 0.5 * np.eye(len(point))
            assert_allclose(solved[o], np.linalg.solve(matrix, vectors[o]), rtol=1e-5, atol=1e-6)
            if kind is chains:
                assert_allclose(solver.matrices[o], matrix, atol=1e-10)
            kept = kind(scheme).heldout_loss(point, fold)  # whatever the sample weights
            assert_allclose(losses[o], kept, atol=1e-12)


@by_scheme
@by_kind
def test_heldout_loss_by_enumeration(kind, scheme):
    model = kind(scheme)
    params = np.random.default_rng(8).normal(size=model.n_params)
    fold = np.array([1, 2, 4])
    weights, losses = acv.folds.weights(model.n_sites, fold), model.heldout_loss(params, fold)
    for site, loss in zip(fold, losses, strict=True):
        with_it = weights + (np.arange(model.n_sites) == site)
        change = enumerated(model, params, with_it) - enumerated(model, params, weights)
        assert loss == pytest.approx(change, abs=1e-10)
    with pytest.raises(ValueError, match="holds site 0, which is missing"):
        kind(scheme, np.arange(5.0)).heldout_loss(params, np.array([0]))
    scored = Folds([fold], [np.array([2])])
    assert model.derivatives.heldout(params, scored)[0] == pytest.approx(losses[1:2])


def test_sums_side_by_side_are_those_of_single_sentences(rng):
    """More sentences than stand side by side, one long."""
    lengths = (700, *[2] * 150, 1, 3, 2)
    model = LinearChainCRF(*data(5, lengths), 1e-12)
    params, weights = rng.normal(0, 3, D), rng.uniform(size=len(lengths))
    alone = Folds(np.arange(len(lengths))[:, None])
    losses = np.ravel(model.derivatives.heldout(params, alone))
    value, total = model.derivatives.value_and_gradient(params, weights)
    assert value == pytest.approx(weights @ losses, rel=1e-12)
    expected = -weights @ model.derivatives.cross(params, alone)
    assert total == pytest.approx(expected, rel=1e-9, abs=1e-10)


def test_models_copy_what_they_are_given_and_pack_is_the_inverse_of_unpack():
    emissions, labels = data(0)
    model = LinearChainCRF(emissions, labels)
    emissions[0][:] = np.nan
    assert np.isfinite(model.emissions[0]).all()
    with pytest.raises(ValueError, match="read-only"):
        model.labels[0][:] = 1
    params = np.random.default_rng(5).normal(size=D)
    np.testing.assert_array_equal(model.pack(model.unpack(params)), params)


@by_scheme
def test_exact_is_delete_and_refit(scheme):
    """One fold of a whole sentence: under hide_labels, every label of the second."""
    model = LinearChainCRF(*data(0, n_tags=2), 0.3, scheme)
    fit, folds = acv.fit(model), [np.array([0]), np.array([2, 3]), np.arange(1, 5)]
    result = acv.exact(fit, folds)
    assert result.diagnostics["converged"].all()
    assert result.diagnostics["decrement"].max() <= 1e-6
    for params, fold in zip(result.params, folds, strict=True):
        weights = acv.folds.weights(model.n_sites, fold)
        refitted = refit(lambda p, w: enumerated(model, p, w), fit.params, weights)
        assert params == pytest.approx(refitted, abs=1e-5)
    raises("nothing is left to fit", acv.exact, fit, [np.arange(model.n_sites)])


@by_kind
def test_marginals_and_viterbi_by_enumeration(kind):
    model = kind(None)
    params = np.random.default_rng(9).normal(size=model.n_params)
    every, links = scores_of(model, params)
    found = zip(every, model.marginals(params), model.predict(params), strict=True)
    for scores, marginal, best in found:
        every_path, score = scored_paths(scores, np.zeros(len(links)), links)
        probability = np.exp(score - logsumexp(score))
        expected = np.einsum("p,ptk->tk", probability, np.eye(2)[every_path])
        assert marginal == pytest.approx(expected, abs=1e-12)
        names = getattr(model, "classes", np.arange(2))
        assert list(best) == [names[k] for k in every_path[np.argmax(score)]]


@by_scheme
def test_params_that_stray_are_summed_exactly(scheme):
    model = crf(scheme)
    folds = Folds([np.array([0]), np.array([3])])
    points = np.array([np.zeros(D), np.where(np.arange(D) == K, -500.0, 0.0)])
    for far in (np.full(D, 1e6), np.linspace(-1e6, 1e6, D)):
        all_known = enumerated(crf(), far, np.ones(len(model.labels)))  # as without a scheme
        found = model.objective(far, np.ones(model.n_sites))
        assert found == pytest.approx(all_known, rel=1e-12)
    far = 700.0 * np.random.default_rng(0).normal(size=D)  # where the product of two moves is 0
    curved = hessian(enumerated, 1)(crf(), far, np.ones(len(model.labels)))
    found = model.derivatives.hessian(far, np.ones(model.n_sites)).damped(0.0)
    assert_allclose(found, curved, rtol=1e-9, atol=1e-9)
    values, gradients = model.derivatives.fold_gradients(points, folds)
    for params, fold, value, gradient in zip(points, folds, values, gradients, strict=True):
        weights = acv.folds.weights(model.n_sites, fold)
        assert value == pytest.approx(enumerated(model, params, weights), rel=1e-12)
        expected = grad(enumerated, 1)(model, params, weights)
        assert gradient == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.isfinite(model.derivatives.heldout(points, folds)[0]).all()
    assert model.marginals(points[1])[1].sum(axis=1) == pytest.approx(1.0)


def test_hidden_labels_that_others_exclude_lose_infinity_and_check_model_needs_all(rng):
    """Without a warning: those of the tests are errors."""
    model = crf(hide_labels)
    far = np.zeros(D)
    far[model.labels[0][0]] = -1000.0  # the bias of the first label's tag
    folds = Folds([np.array([0]), np.array([2])])
    losses = [fold[0] for fold in model.derivatives.heldout(far, folds)]
    assert losses[0] == np.inf
    assert losses[1] > 0
    model = chains(hide_labels)
    raises("at weights 1", acv.check_model, model, rng.normal(size=model.n_params), rng)


@pytest.mark.parametrize("seed", [40, 43, 50, 51, 59])
def test_folds_that_curve_down_without_their_labels_are_refitted_to_a_minimum(seed):
    """F is convex where all labels are seen, and not where a sum over hidden ones is its term."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 9, 12)
    tags = [rng.integers(K, size=t) for t in lengths]
    scores = [4.0 * rng.normal(size=(t, K)) for t in lengths]
    model = LinearChainCRF(scores, tags, 0.01, hide_labels)
    fit = acv.fit(model)
    raises("nothing is left to fit", acv.exact, fit, [np.arange(model.n_sites)])
    folds = acv.folds.iid(model.n_sites, 30, 4, rng)
    result = acv.exact(fit, folds)
    assert result.diagnostics["converged"].all()
    for params, fold in zip(result.params, folds, strict=True):
        weights = acv.folds.weights(model.n_sites, fold)
        assert np.linalg.eigvalsh(np.asarray(fit.derivatives.hessian(params, weights)))[0] > 0.0
    assert acv.from_scratch(fit, folds[:1]).loss == acv.exact(fit, folds[:1]).loss
