"""The Newton step: exact where the problem is linear, of second order where it is not."""

import warnings

import numpy as np
import pytest
from ladder_cases import FOLDS, SMALL, X, Y, case, left_out, tight_refit
from numpy.testing import assert_allclose
from oracles.toy_models import Saddle

import acvlib as acv
from acvlib.methods.ladder import IndefiniteFold
from acvlib.trials import UnconvergedFit


@pytest.mark.parametrize("name", ["ridge", "instruments"])
def test_one_newton_step_is_exact_for_a_linear_problem_from_anywhere(name):
    model = SMALL[name]
    with pytest.warns(UnconvergedFit):
        step = acv.newton_step(acv.fit_at(model, np.array([5.0, -1.0, 2.0])), FOLDS)
    expected = [model.solution(left_out(model, fold)) for fold in FOLDS]
    assert_allclose(step.params, expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["logistic", "traffic A"])
def test_half_the_distance_gives_a_quarter_of_the_newton_steps_error(name, fits, traffic_fit):
    """Newton's method converges quadratically:
    started at distance d from the optimum it ends O(d^2) away.
    """
    model, fit, fold = case(name, fits, traffic_fit)
    optimum = tight_refit(model, fit.params, left_out(model, fold))
    away = (
        0.05
        * np.linalg.eigh(np.linalg.inv(fit.metric))[1][:, -1]
        / np.sqrt(np.linalg.eigvalsh(fit.metric)[0])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnconvergedFit)
        starts = [acv.fit_at(model, optimum + scale * away) for scale in (1.0, 0.5, 0.25)]
        ends = np.array([acv.newton_step(start, [fold]).params[0] for start in starts])
    errors = fit.standard_errors_between(ends, optimum)
    assert ((errors[:-1] / errors[1:] > 3.5) & (errors[:-1] / errors[1:] < 4.5)).all(), errors


def test_newton_step_marks_indefinite_folds_and_warns_once():
    model = Saddle(X[:, :2], Y)
    fit = acv.fit_at(model, np.zeros(2))
    with pytest.warns((IndefiniteFold, UnconvergedFit)) as record:
        result = acv.newton_step(fit, FOLDS)
    ours = [w for w in record if w.category is IndefiniteFold]
    assert len(ours) == 1
    assert "3 of 3 folds" in str(ours[0].message)
    assert "fold 0" in str(ours[0].message)
    assert ours[0].filename == __file__
    assert result.indefinite.all()
