"""The CRF over features against sklearn-crfsuite and delete-and-refit; test_crf.py enumerates."""

import numpy as np
import pandas as pd
import pytest
import sklearn_crfsuite
from oracles.wrappers import raises

import acvlib as acv
from acvlib.adapters import sparse_crf
from acvlib.adapters.crfsuite import FeatureCRF, attributes, from_crfsuite
from acvlib.folds import WHOLE


def data(n=8, seed=0, words=30):
    """Sentences with every kind of value, and labels that the words half decide."""
    rng = np.random.default_rng(seed)
    sentences = []
    labels = []
    for _ in range(n):
        drawn = rng.integers(0, words, rng.integers(1, 6))
        sentences.append([token(word) for word in drawn])
        labels.append(["ABC"[(word + rng.integers(0, 2)) % 3] for word in drawn])
    return sentences, labels


def token(word):
    nested = {"third": [f"is{word % 3}"], "size": word / 7}
    return {"word": f"w{word}", "bias": 1, "odd": bool(word % 2), "x": word / 10, "in": nested}


def crfsuite(X, y, **settings):
    exact = {"c1": 0, "c2": 0.3, "max_iterations": 10_000, "epsilon": 1e-12, "delta": 1e-14}
    return sklearn_crfsuite.CRF(**exact | settings).fit(X, y)


def test_attributes_are_those_of_crfsuite():
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, _ = data()
    X.append([["a", "b"], {"c": {"d": {"e": "f"}}, "g": ["h", "i"], "k": np.float64(2.5)}])
    matrix, starts, names = attributes(X)
    items = [item for sentence in X for item in pycrfsuite.ItemSequence(sentence).items()]
    assert starts[-1] == len(items)
    for row, item in zip(matrix.toarray(), items, strict=True):
        ours = {name: value for name, value in zip(names, row, strict=True) if value}
        assert ours == {name: value for name, value in item.items() if value}


@pytest.mark.parametrize("every", [None, True])
def test_from_crfsuite_has_its_weights_probabilities_and_labels(every):
    X, y = data(60)
    settings = {"all_possible_states": every, "all_possible_transitions": every}
    fitted = crfsuite(X, y, **settings)
    model, params = from_crfsuite(fitted, X, y)
    seen = FeatureCRF(X, y).free if not every else np.arange(3 * (len(model.names) + 3))
    np.testing.assert_array_equal(model.free, seen)
    losses = []
    for sentence, labels in zip(X, y, strict=True):
        fitted.tagger_.set(sentence)
        losses.append(-np.log(fitted.tagger_.probability(labels)))
    np.testing.assert_allclose(model.heldout_loss(params, np.arange(60)), losses, atol=1e-12)
    others, _ = data(9, seed=1, words=40)  # with words never seen
    theirs = fitted.predict_marginals(others)
    for mine, marginals in zip(model.marginals(params, others), theirs, strict=True):
        rows = [[marginal[label] for label in model.classes] for marginal in marginals]
        np.testing.assert_allclose(mine, rows, atol=1e-12)
    assert model.predict(params, others) == [list(labels) for labels in fitted.predict(others)]
    assert model.predict(params) == [list(labels) for labels in fitted.predict(X)]
    np.testing.assert_allclose(acv.fit(model).params, params, atol=2e-5)
    stopped = crfsuite(X, y, max_iterations=3, **settings)
    model, params = from_crfsuite(stopped, X, y)
    assert model.n_params == len(stopped.state_features_) + len(stopped.transition_features_)
    assert model.predict(params, others) == [list(labels) for labels in stopped.predict(others)]


def test_products_where_sums_are_in_logarithms_are_differences_of_gradients(rng):
    """All moves underflow beside the one from C to C, where no token can be."""
    X, y = data(12)
    model = FeatureCRF([own[:2] for own in X], [own[:2] for own in y], 0.3)
    named = model.unpack(rng.normal(size=model.n_params))
    named.transitions[2, 2] = 900.0
    named.states[model.names.index("bias"), 2] = -5000.0
    params = model.pack(named)
    vector = rng.normal(size=(1, model.n_params))
    ends = []
    for step in (1e-4, -1e-4):
        point = params + step * vector[0]
        ends.append(model.derivatives.value_and_gradient(point, np.ones(12))[1])
    products = model.derivatives.products(params, WHOLE)
    found = products.multiply(vector, np.array([0]))[0]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-4, atol=1e-6)
    moves, rows = np.eye(model.n_params)[-9:], np.zeros(9, int)
    curvatures = products.multiply(moves, rows)[:, -9:].diagonal()  # of one move a sentence
    by_inverse = products.precondition(moves, rows)[:, -9:].diagonal()
    np.testing.assert_allclose(by_inverse, 1 / curvatures)
    assert curvatures.max() > 0.4
    for _ in range(60):  # without a warning, which is an error here
        far = model.derivatives.products(400.0 * rng.normal(size=model.n_params), WHOLE)
        assert np.isfinite(far.precondition(vector, np.array([0]))).all()


@pytest.mark.parametrize("longest", [1, 5])
def test_the_preconditioner_keeps_all_of_single_tokens_and_less_of_others(longest, monkeypatch):
    monkeypatch.setattr(sparse_crf, "UNCERTAIN", 1e-13)
    monkeypatch.setattr(sparse_crf, "SMALL", 0.0)
    monkeypatch.setattr(sparse_crf, "SETTLED", np.inf)
    X, y = data(12)
    model = FeatureCRF([own[:longest] for own in X], [own[:longest] for own in y], 0.3)
    products = model.derivatives.products(acv.fit(model).params[None], WHOLE)
    rows = np.zeros(model.n_params, int)
    hessian_rows = products.multiply(np.eye(model.n_params), rows)
    values = np.linalg.eigvals(products.precondition(hessian_rows, rows)).real
    assert values.min() > 1.0 - 1e-6
    assert values.max() < (1.0 + 1e-6 if longest == 1 else 10.0)


@pytest.mark.parametrize("odd", ["", "N\n", "a --> b", "1: 2", "}", " \r"])
def test_from_crfsuite_has_names_of_any_text(odd):
    X, y = data(20)
    X = pd.Series([[[odd], *own] for own in X], np.arange(20)[::-1])
    y = [[odd, *labels] for labels in y]
    fitted = crfsuite(list(X), y)
    model, params = from_crfsuite(fitted, X, y)
    assert model.index.equals(X.index)
    np.testing.assert_allclose(acv.fit(model).params, params, atol=2e-5)
    assert model.predict(params) == [list(labels) for labels in fitted.predict(list(X))]


def test_from_crfsuite_refuses_what_it_cannot_hold():
    """Settings that are not honoured: tests/laws/test_theirs.py."""
    X, y = data(20)
    fitted = crfsuite(X, y)
    turned, all_a = [tags[::-1] for tags in y], [["A"] * len(tags) for tags in y]
    for crf, rows, labels, words in (
        (sklearn_crfsuite.CRF(), X, y, "not fitted"),
        (fitted, X[:5], y[:5], "give the X and y that it was fitted to"),
        (fitted, X, turned, "crfsuite's log ends at F"),
        (fitted, X, all_a, "'B' and 1 more of its names are not in X, y"),
        ((fitted,), X, y, r"CRF, such as the best_estimator_ of a search; got \("),
    ):
        with pytest.raises(TypeError if crf == (fitted,) else ValueError, match=words):
            from_crfsuite(crf, rows, labels)
    X = [[["a"], ["a\0b"]]]
    for labels, c2, words in [("AB", 0, "c2=0"), ("AA", 1, "'A' is the only"), ("AB", 1, "NUL")]:
        raises(words, from_crfsuite, crfsuite(X, [list(labels)], c2=c2), X, [list(labels)])
