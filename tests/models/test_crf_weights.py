"""Sample weights of conditional random fields: a sentence of weight s counts s times."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.wrappers import ByAutograd
from test_crf import data, enumerated
from test_feature_crf import data as feature_data

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.models import FeatureCRF, LinearChainCRF
from acvlib.weighting import hide_labels

SCHEMES = [None, hide_labels]
TWICE = [2, 1, 0, 3, 1]  # the second sentence has four tokens, the third none that counts
COPIES = np.repeat(np.arange(5), TWICE)


def chains(scheme, weights=1.0, sentences=range(5)):
    emissions, labels = data(1, n_tags=2)
    own = ([emissions[n] for n in sentences], [labels[n] for n in sentences])
    return LinearChainCRF(*own, 0.3, scheme, sample_weight=weights)


def features(scheme, weights=1.0, sentences=range(5)):
    X, y = feature_data(5, 3)
    seen = FeatureCRF(X, y, 0.3)
    tokens = seen.tokens.take(np.array(sentences))
    own = seen.sentences._replace(matrix=tokens.matrix, starts=tokens.starts)
    labels = [y[n] for n in sentences]
    return FeatureCRF(own, labels, 0.3, scheme, free=seen.free, sample_weight=weights)


KINDS = [chains, features]


def some_folds(model):
    """Of sites that are observed."""
    sites = np.flatnonzero(model.observed)
    return Folds([sites[:1], sites[1:3]])


def sites_of(model, sentences):
    """The sites, one or more, of each sentence in a model of copies."""
    if not model.scheme:
        return [np.array([n]) for n in sentences]
    starts = model.tokens.starts
    return [np.arange(starts[n], starts[n + 1]) for n in sentences]


def in_copies(weighted, repeated, fold):
    """The sites of the copies of a fold's sites."""
    if not weighted.scheme:
        return np.flatnonzero(np.isin(COPIES, fold))
    own = weighted.tokens
    rows = own.rows(COPIES)
    return np.flatnonzero(np.isin(rows, fold))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_equal_autograd(kind, scheme):
    rng = np.random.default_rng(1)
    model = kind(scheme, np.append(0.0, rng.uniform(0.2, 3.0, 4)))
    slow = derivatives_of(ByAutograd(model))
    fast = model.derivatives
    params = 0.5 * rng.normal(size=model.n_params)
    w = rng.uniform(0.2, 1.0, model.n_sites)
    found = fast.value_and_gradient(params, w)
    expected = slow.value_and_gradient(params, w)
    assert found[0] == pytest.approx(expected[0], rel=1e-12)
    assert_allclose(found[1], expected[1], atol=1e-11)
    folds = some_folds(model)
    assert_allclose(fast.cross(params, folds), slow.cross(params, folds), atol=1e-10)
    both = zip(fast.fold_gradients(params, folds), slow.fold_gradients(params, folds), strict=True)
    for ours, theirs in both:
        assert_allclose(ours, theirs, atol=1e-10)
    hessians = slow.fold_hessians(params, folds).matrices
    if kind is chains:
        assert_allclose(fast.fold_hessians(params, folds).matrices, hessians, atol=1e-10)
        hessian = np.asarray(slow.hessian(params, w))
        assert_allclose(np.asarray(fast.hessian(params, w)), hessian, atol=1e-10)
    else:
        vectors = rng.normal(size=(2, len(params)))
        products = fast.products(params, folds).multiply(vectors, np.arange(2))
        assert_allclose(products, np.einsum("nij,nj->ni", hessians, vectors), atol=1e-10)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_objective_is_enumeration(scheme):
    model = chains(scheme, TWICE)
    repeated = chains(scheme, 1.0, COPIES)
    rng = np.random.default_rng(2)
    params = rng.normal(size=model.n_params)
    w = rng.uniform(0.2, 1.0, model.n_sites)
    rows = model.tokens.rows(COPIES) if scheme else COPIES
    expected = enumerated(repeated, params, w[rows])
    assert model.objective(params, w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_of_weight_two_is_a_sentence_twice(kind, scheme):
    weighted = kind(scheme, TWICE)
    repeated = kind(scheme, 1.0, COPIES)
    fit = acv.fit(weighted, tolerance=1e-9)
    again = acv.fit(repeated, tolerance=1e-9)
    assert_allclose(fit.params, again.params, atol=1e-7)
    folds = some_folds(weighted)
    copies = Folds([in_copies(weighted, repeated, fold) for fold in folds])
    for rung in (acv.infinitesimal_jackknife, acv.newton_step, acv.exact):
        one = rung(fit, folds)
        other = rung(again, copies)
        assert_allclose(one.params, other.params, atol=1e-5)
        for params, fold, losses in zip(one.params, folds, one.losses, strict=True):
            assert_allclose(losses, kind(scheme).heldout_loss(params, fold), rtol=1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_of_weight_zero_is_missing_and_in_no_fold(kind, scheme):
    model = kind(scheme, TWICE)
    absent = sites_of(model, [2])[0]
    assert np.flatnonzero(~model.observed).tolist() == absent.tolist()
    fit = acv.fit(model)
    with pytest.raises(ValueError, match="missing"):
        acv.exact(fit, [absent[:1]])
    folds = acv.folds.leave_one_out(model.n_sites, model.observed)
    assert len(acv.infinitesimal_jackknife(fit, folds).losses) == model.observed.sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"sample_weight have shape \(2,\), not \(5,\): one weight a sentence"),
        (-1.0, "weight -1.0 of sentence 0 must be finite and >= 0"),
        ([1, 1, np.nan, 1, 1], "weight nan of sentence 2"),
        (np.ones((5, 1)), "sample_weight have shape"),
        (0.0, "every sample_weight is 0"),
        ("two", "sample_weight must be real numbers"),
    ],
)
def test_bad_weights_are_named(kind, scheme, weights, message):
    with pytest.raises(ValueError, match=message):
        kind(scheme, weights)
