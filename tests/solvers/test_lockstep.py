"""Refits by gradients alone: where they end, what is left to Newton's method, and saddles."""

import autograd.numpy as anp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.model import Refits
from acvlib.solvers.lockstep import lockstep
from acvlib.solvers.newton import newton


class Wells:
    """A mean, and a parameter that only site 0 keeps between two wells, at -1 and 1."""

    n_sites = 5
    sites = np.array([0.3, -1.0, 0.5, 2.0, 0.1])

    def objective(self, params, weights):
        mean, place = params
        fit = 0.5 * anp.sum(weights * (self.sites - mean) ** 2)
        return fit + (place**2 - 1.0) ** 2 + 3.0 * weights[0] * place**2

    def heldout_loss(self, params, fold):
        return 0.5 * (self.sites[fold] - params[0]) ** 2

    def initial_params(self, rng):
        return np.array([0.0, 0.0])


def test_no_symmetry_leads_a_refit_to_a_saddle():
    """The fold's gradient has no share in the direction in which it has negative curvature."""
    fit = acv.fit(Wells())
    assert_array_equal(fit.params[1], 0.0)
    result = acv.exact(fit, [np.array([0]), np.array([1])])
    assert result.diagnostics["converged"].all()
    assert not result.indefinite.any()
    assert_allclose(abs(result.params[:, 1]), [1.0, 0.0], atol=1e-6)
    assert_allclose(result.params[0, 0], Wells.sites[1:].mean(), atol=1e-6)
    # folds whose steps met no positive curvature are checked by their Hessians
    assert 1 <= result.evaluations["hessian"] <= 3


class Edge:
    """A minimum at 0, and nothing finite beyond -0.5: Newton's step from 0.9 goes to -9."""

    n_sites = 2

    def objective(self, params, weights):
        beyond = anp.exp(-2000.0 * (params[0] + 0.5)) * 1e-300
        return anp.sqrt(1.0 + 10.0 * params[0] ** 2) + beyond + 0.0 * anp.sum(weights)


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")
def test_a_step_to_where_nothing_is_finite_is_shortened():
    derivatives = derivatives_of(Edge())
    folds = Folds([np.array([0])])
    found = Refits.unfinished(1, 1)
    lockstep(derivatives, np.array([0.9]), folds, 1e-8, np.full((1, 1, 1), 2.0), found)
    by_newton = newton(derivatives, np.array([0.9]), folds, 1e-8)
    assert by_newton.converged.all()
    for end in (found.params, by_newton.params):
        assert_allclose(end, 0.0, atol=1e-7)
