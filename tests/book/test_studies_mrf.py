"""The studies of hidden fields, on a small map whose answers can be had otherwise."""

import numpy as np
import pytest
from acvbook.datasets import Areas
from acvbook.datasets.philadelphia import hexagons
from acvbook.studies import mrf

import acvlib as acv
from acvlib.models import EmptyState


@pytest.fixture(scope="module")
def data():
    outlines, edges = hexagons(6, 5)
    counts = np.random.default_rng(0).poisson(np.where(np.arange(30) < 14, 4, 15))
    return Areas(counts, edges, "simulated", "", "small", outlines)


@pytest.fixture(scope="module")
def fields(data):
    return {beta: mrf.every_rung(data, beta, acv.folds.leave_one_out(30)) for beta in (0.1, 0.3)}


def test_a_step_by_tract_is_a_step_of_em(data, fields):
    """The paper's coupling counts every edge twice."""
    assert mrf.hidden_field(data, 0.3).coupling == 0.6
    model, params = fields[0.3].model, fields[0.3].fit.params + 0.1
    weights = acv.folds.weights(30, [3, 4])
    expected = mrf.maximise(model, params, weights)
    np.testing.assert_allclose(mrf.maximise_by_tract(model, params, weights), expected, rtol=1e-12)


def test_em_never_raises_the_objective_and_sorts(fields):
    model, weights = fields[0.3].model, acv.folds.weights(30, [3, 20])
    params, values = fields[0.3].fit.params[::-1], []
    for _ in range(8):
        values.append(model.objective(params, weights))
        params = mrf.maximise(model, params, weights)
    assert (np.diff(values) < 0).all()
    switched = mrf.em(model, weights, params).params
    assert switched[0] < switched[1]
    np.testing.assert_allclose(switched, mrf.em(model, weights).params, rtol=0, atol=1e-8)
    with pytest.raises(EmptyState, match="the states hold"):
        mrf.em(model, start=np.array([-1e3, 3.0]))
