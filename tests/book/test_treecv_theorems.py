"""What the theorems on TreeCV speak of: measured on learners for which the answer is known."""

import numpy as np
import pandas as pd
import pytest
from acvbook.studies import treecv_theorems as theorems

from acvlib.treecv import Examples, kfold, learners, treecv


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(400, 3)), np.ones(400)])
    return Examples(X, np.where(X[:, 0] + rng.normal(size=400) > 0, 1.0, -1.0))


def test_gap_of_a_draw_is_that_of_both_cross_validations(rows):
    subject = theorems.Subject(lambda n: learners.pegasos(4, 0.1), rows, 0.1)
    drawn = theorems.gaps(subject, 64, 8, 3, np.random.default_rng(0))
    [stream, *_] = np.random.default_rng(0).spawn(3)
    sample = rows.take(stream.integers(400, size=64))
    w = np.zeros(5)
    for x, y in zip(sample.X, sample.y, strict=True):  # PEGASOS by its definition
        if y * (w[:4] @ x) < 0.1 * w[4] or w[4] == 0:
            w[:4] += y * x
        w[4] += 1
    training = (sample.y * (sample.X @ w[:4]) <= 0).mean()
    tree = treecv(learners.pegasos(4, 0.1), sample, 8, shuffle=False).loss
    first = drawn.iloc[0]
    assert first["nothing"] - first["treecv"] == pytest.approx(training - tree, abs=1e-12)
    assert first.se == pytest.approx(kfold(learners.pegasos(4, 0.1), sample, 8, shuffle=False).se)
    assert drawn["n"].tolist() == [64] * 3


def test_bounds_and_ratios_made_by_hand():
    columns = {"difference": [-0.4, 0.2, 0.1, -0.1], "incremental": [0.3, 0.1, 0.1, 0.1]}
    columns |= {"n": [10, 10, 20, 20], "batch": [0.1, 0.1, 0.2, 0.2]}
    bound = theorems.bounds(pd.DataFrame(columns))
    assert bound["sure"].tolist() == [0.4, 0.1]
    assert bound["expected"].tolist() == pytest.approx([0.2, 0.2])
    drawn = pd.DataFrame({"n": [10, 10, 20, 20], "treecv": [0.2, -0.1, 0.02, 0.06]})
    np.testing.assert_allclose(theorems.over_sure_bound(drawn, bound), [0.5, 0.6])
    assert theorems.over_expected_bound(drawn, bound) == pytest.approx(0.05 / 0.2)
    assert theorems.standard_errors(drawn) == pytest.approx(0.04 / 0.02)


def test_least_squares_in_the_ball():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    for weights in ([0.3, 0.2, -0.1], [3.0, 0.0, 4.0]):  # inside, and far outside
        y = X @ np.array(weights)
        best = theorems.least_squares_in_ball(Examples(X, y))
        others = rng.normal(size=(2_000, 3))
        others /= np.maximum(np.linalg.norm(others, axis=1, keepdims=True), 1.0)
        errors = ((X @ others.T - y[:, None]) ** 2).mean(axis=0)
        assert best <= errors.min()
        assert best >= errors.min() * 0.9 or np.linalg.norm(weights) <= 1
    assert theorems.least_squares_in_ball(Examples(X, X @ [0.3, 0.2, -0.1])) < 1e-12


def test_idle_learner_costs_copies_only(rows):
    learner = learners.pegasos(4, 0.1)
    result = treecv(theorems.idle(learner, 5), rows, 16, shuffle=False)
    assert (result.pointwise == 0).all()
    assert (result.evaluations["updates"], result.evaluations["copies"]) == (4 * 400, 15)
