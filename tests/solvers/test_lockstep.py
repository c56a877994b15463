"""Refits by gradients alone: where they end, what is left to Newton's method, and saddles."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import SEEN, WELLS, OfFunctions

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.model import Refits
from acvlib.solvers.lockstep import lockstep
from acvlib.solvers.newton import newton


def test_no_symmetry_leads_a_refit_to_a_saddle():
    """The fold's gradient has no share in the direction in which it has negative curvature."""
    fit = acv.fit(WELLS)
    assert_array_equal(fit.params[1], 0.0)
    result = acv.exact(fit, [np.array([0]), np.array([1])])
    assert result.diagnostics["converged"].all()
    assert not result.indefinite.any()
    assert_allclose(abs(result.params[:, 1]), [1.0, 0.0], atol=1e-6)
    assert_allclose(result.params[0, 0], SEEN[1:].mean(), atol=1e-6)
    # folds whose steps met no positive curvature are checked by their Hessians
    assert 1 <= result.evaluations["hessian"] <= 3


def edge(params, weights):
    """A minimum at 0, and nothing finite beyond -0.5: Newton's step from 0.9 goes to -9."""
    beyond = anp.exp(-2000.0 * (params[0] + 0.5)) * 1e-300
    return anp.sqrt(1.0 + 10.0 * params[0] ** 2) + beyond + 0.0 * anp.sum(weights)


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")
def test_a_step_to_where_nothing_is_finite_is_shortened():
    derivatives = derivatives_of(OfFunctions(2, edge))
    folds = Folds([np.array([0])])
    found = Refits.unfinished(1, 1)
    lockstep(derivatives, np.array([0.9]), folds, 1e-8, np.full((1, 1, 1), 2.0), found)
    by_newton = newton(derivatives, np.array([0.9]), folds, 1e-8)
    assert by_newton.converged.all()
    for end in (found.params, by_newton.params):
        assert_allclose(end, 0.0, atol=1e-7)
