"""The Siamese network: loss pair by pair, derivatives by differences, folds by deleting images."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import acvlib as acv

neural = pytest.importorskip("acvbook.neural")
siamese = pytest.importorskip("acvbook.studies.siamese")
Siamese, Adam, train = neural.Siamese, neural.Adam, neural.train_siamese


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    own = np.repeat(rng.standard_normal((4, 15, 15)), 3, axis=0)
    images = own + 0.5 * rng.standard_normal((12, 15, 15))
    return Siamese(images, np.repeat(np.arange(4), 3), 1e-3, channels=(2, 3), n_outputs=2)


@pytest.fixture(scope="module")
def params(model):
    return train(model, Adam(10), 0)


FOLD = np.array([3, 4, 5])


def central(function, at, direction, step=1e-5):
    ends = [np.asarray(function(at + way * step * direction)) for way in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step)


def test_objective_is_the_mean_over_all_pairs(model, params):
    import torch

    f = model.outputs(torch.as_tensor(params), model.inputs).numpy()
    weights, total = np.random.default_rng(1).random(12), 0.0
    for i in range(12):
        for j in range(12):
            d = np.linalg.norm(f[i] - f[j])
            same = model.person[i] == model.person[j]
            total += weights[i] * weights[j] * (d**2 if same else max(1.0 - d, 0.0) ** 2)
    expected = 12 * (total / weights.sum() ** 2 + 1e-3 * params @ params)
    assert_allclose(model.objective(params, weights), expected, rtol=1e-6)


def test_derivatives_are_finite_differences(model, params):
    rng, ones = np.random.default_rng(2), np.ones(12)
    v, fast = rng.standard_normal(len(params)), model.derivatives
    value, gradient = fast.value_and_gradient(params, ones)
    assert_allclose(central(lambda p: model.objective(p, ones), params, v), gradient @ v, rtol=1e-6)
    product = fast.products(params[None], acv.folds.WHOLE).multiply(v[None], np.zeros(1, int))[0]
    expected = central(lambda p: fast.value_and_gradient(p, ones)[1], params, v)
    assert_allclose(product, expected, rtol=1e-4, atol=1e-6)
    change = acv.folds.weights(12, FOLD) - 1.0
    cross = central(lambda w: fast.value_and_gradient(params, w)[1], ones, change)
    assert_allclose(fast.cross(params, acv.folds.Folds([FOLD]))[0], cross, rtol=1e-5, atol=1e-7)


def test_the_printed_cross_differs_by_the_normaliser(model, params):
    ones, without = np.ones(12), replace(model, gamma_i=0.0)
    mean = without.derivatives.value_and_gradient(params, ones)[1]
    each = (model.printed_cross, model.derivatives.cross)
    printed, ours = (cross(params, acv.folds.Folds([FOLD]))[0] for cross in each)
    assert_allclose(printed * (9 / 12) ** 2, ours - 2 * 3 / 12 * mean, rtol=1e-8, atol=1e-12)


def test_weights_of_a_fold_are_the_network_without_its_images(model, params):
    kept = np.setdiff1d(np.arange(12), FOLD)
    alone = replace(model, images=model.images[kept], person=model.person[kept])
    alone.__dict__["inputs"] = model.inputs[kept]  # standardised as all images are
    ours = model.derivatives.value_and_gradient(params, acv.folds.weights(12, FOLD))
    theirs = alone.derivatives.value_and_gradient(params, np.ones(9))
    for mine, other in zip(ours, theirs, strict=True):
        assert_allclose(mine / 12, other / 9, rtol=1e-9, atol=1e-12)
