"""Each learner against its definition written out in numpy, one row at a time."""

import numpy as np
import pytest
from oracles.wrappers import raises
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.svm import SVC
from test_treecv import LEARNERS

from acvlib.treecv import Examples, kfold, learners, treecv


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) + [1.0, 0.0, 0.0, -1.0]
    return Examples(X, np.where(X @ [1, -1, 0.5, 0] + rng.normal(size=300) > 1, 1.0, -1.0))


def trained(learner, data):
    return learner.update(learner.init(), data.X, data.y)


def test_pegasos_takes_the_steps_of_its_paper(table):
    """w <- (1 - eta lambda) w + eta [y w.x < 1] y x, eta = 1/(lambda t): Shalev-Shwartz (2011)."""
    regularization, w = 0.01, np.zeros(4)
    for t, (x, y) in enumerate(zip(table.X, table.y, strict=True), 1):
        eta = 1.0 / (regularization * t)
        w = (1 - eta * regularization) * w + eta * (y * (w @ x) < 1) * y * x
    learner = learners.pegasos(4, regularization)
    state = trained(learner, table)
    np.testing.assert_allclose(state[:4] / (regularization * 300), w, rtol=1e-9)
    wrong = np.sign(table.X @ w) != table.y
    np.testing.assert_array_equal(learner.loss(state, table.X, table.y), wrong * 1.0)


def test_lsqsgd_averages_the_projected_iterates(table):
    step, w, iterates = 0.05, np.zeros(4), []
    for x, y in zip(table.X, table.y, strict=True):
        iterates.append(w)
        w = w - step * 2 * (w @ x - y) * x
        w = w / max(1.0, np.linalg.norm(w))
    learner, mean = learners.lsqsgd(4, step), np.mean(iterates, axis=0)
    found = learner.loss(trained(learner, table), table.X, table.y)
    np.testing.assert_allclose(found, (table.X @ mean - table.y) ** 2, rtol=1e-9)
    assert max(np.linalg.norm(iterates, axis=1)) == pytest.approx(1.0)  # the projection was at work


@pytest.mark.parametrize("portions", [[300], [1, 299], [7, 13, 280]])
def test_k_means_moves_centres_however_rows_arrive(table, portions):
    """The nearest centre becomes the mean of all its rows (Sculley 2010, Algorithm 1)."""
    centres, counts = table.X[:3].copy(), np.ones(3)
    for x in table.X[3:]:
        nearest = ((x - centres) ** 2).sum(axis=1).argmin()
        counts[nearest] += 1
        centres[nearest] += (x - centres[nearest]) / counts[nearest]
    learner = learners.k_means(4, 3)
    state = learner.init()
    for part in np.split(table.X, np.cumsum(portions)[:-1]):
        state = learner.update(state, part, None)
    np.testing.assert_array_equal(state, trained(learner, table))
    np.testing.assert_allclose(state[:12].reshape(3, 4), centres, rtol=1e-9)
    least = ((table.X[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(learner.loss(state, table.X, None), least, rtol=1e-9)


def test_histogram_is_a_density_and_rows_far_outside_count_in_the_nearest_cell(table):
    learner = learners.histogram([-3, -3], [3, 3], n_bins=12, pseudo_count=0.5)
    state = trained(learner, Examples(table.X[:, :2]))
    middle = (np.arange(12) + 0.5) / 2 - 3
    grid = np.array([[a, b] for a in middle for b in middle])
    assert np.exp(-learner.loss(state, grid, None)).sum() * 0.25 == pytest.approx(1.0, rel=1e-12)
    inside, _ = np.histogramdd(np.clip(table.X[:, :2], -2.99, 2.99), [12, 12], [[-3, 3], [-3, 3]])
    expected = -np.log((inside.ravel() + 0.5) / (300 + 72) / 0.25)
    np.testing.assert_allclose(learner.loss(state, grid, None), expected, rtol=1e-12)
    learner = learners.histogram([0], [1], 3)
    state = learner.update(learner.init(), np.array([[-1e300], [1e300], [1e30]]), None)
    np.testing.assert_array_equal(state, [1, 0, 2, 3])


CLASSIFIER = learners.PartialFit(SGDClassifier(), classes=(0.0, 1.0))
PEGASOS, OF_ONE_COLUMN = learners.pegasos(4), learners.histogram([0], [1], 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: learners.histogram([0], [0], 5), "lower"),
        (lambda t: learners.PartialFit(SVC()), "SVC has no partial_fit"),
        (lambda t: learners.PartialFit(SGDClassifier()), "needs `classes`"),
        (lambda t: learners.PartialFit(SGDClassifier(), "01"), "must be a list of all labels"),
        (lambda t: learners.PartialFit(SGDRegressor(), (0, 1)), "SGDRegressor does not classify"),
        (lambda t: learners.PartialFit(MiniBatchKMeans()), "has no usual loss"),
        (lambda t: treecv(PEGASOS, Examples(t.X, t.y.clip(0)), 5), r"label 0 of .* \(-1, 1\)"),
        (lambda t: treecv(learners.lsqsgd(4, 0.1), Examples(t.X), 5), "needs targets"),
        (lambda t: treecv(OF_ONE_COLUMN, t, 5), "X has 4 features, and the learner 1"),
        (lambda t: treecv(CLASSIFIER, t, 5), r"label -1 of row .* not one of \(0.0, 1.0\)"),
        (lambda t: treecv(CLASSIFIER, Examples(t.X), 5), "needs targets y"),
    ],
)
def test_settings_and_rows_that_a_learner_cannot_take(table, make, message):
    raises(message, make, table, error=(ValueError, TypeError))


def test_classes_are_any_collection_and_an_estimator_learns_once_for_each_model(table):
    """The law of what is theirs has its losses; with two folds each model has one half to learn."""
    for classes in ({-1, 1}, np.array([1.0, -1.0]), [-1, 1]):
        learner = learners.PartialFit(SGDClassifier(random_state=0), classes)
        same = learners.PartialFit(SGDClassifier(random_state=0), (-1, 1))
        found, expected = treecv(learner, table, 5), treecv(same, table, 5)
        np.testing.assert_array_equal(found.pointwise, expected.pointwise)
    estimator = SGDRegressor(shuffle=False, random_state=0)
    learner = learners.PartialFit(estimator)
    tree, standard = (method(learner, table, 2, shuffle=False) for method in (treecv, kfold))
    np.testing.assert_array_equal(tree.pointwise, standard.pointwise)
    alone = clone(estimator).partial_fit(table.X[150:], table.y[150:])
    squares = (alone.predict(table.X[:150]) - table.y[:150]) ** 2
    np.testing.assert_array_equal(tree.pointwise[:150], squares)
    assert not hasattr(estimator, "coef_")  # it stays as it is


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_kernels_are_reached_only_with_rows_and_columns_that_are_there(table, name):
    """A kernel does not look: what is not there would be read from, or written to, other memory.

    Nor does a damaged count of rows write elsewhere.
    """
    learner = LEARNERS[name]
    state = learner.init()
    for call in (learner.update, learner.loss):
        with pytest.raises(ValueError, match="X has 2000 features, and the learner 4"):
            call(state, np.ones((300, 2_000)), table.y)
        raises(r"y has shape \(299,\), not \(300,\)", call, state, table.X, table.y[1:])
        raises("is not of", call, state[1:], table.X, table.y)
    np.testing.assert_array_equal(state, learner.init())
    learner = learners.k_means(4, 3)
    for count in (-5.0, -1e18, np.nan):
        state = learner.update(learner.init(), table.X, None)
        state[-1] = count
        learner.update(state, table.X, None)
        assert np.isfinite(state[:12]).all()
