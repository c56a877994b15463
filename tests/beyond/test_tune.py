"""Hyperparameters by gradients of exact cross-validation, against grids and closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import acvlib as acv
from acvlib.beyond.tune import OtherOptimum
from acvlib.models import GLM

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 6))
NOISY = X @ [1.0, -1.0, 0.2, 0.1, 0.0, 0.0] + RNG.standard_normal(60)
GROUP = np.repeat(np.arange(3), 2)
ONE_EACH = np.arange(60)[:, None]


def ridges(alpha):
    return GLM(X, NOISY, "gaussian", alpha[GROUP], intercept=False)


def closed(log_alpha):
    """The leave-one-out loss of a ridge a group, by the hat matrix."""
    ridge = np.diag(np.exp(log_alpha)[GROUP])
    hat = X @ np.linalg.solve(X.T @ X + ridge, X.T)
    gaps = (NOISY - hat @ NOISY) / (1.0 - np.diag(hat))
    return 0.5 * np.mean(gaps**2) + 0.5 * np.log(2.0 * np.pi)


def test_minimum_is_that_of_the_closed_form():
    found = acv.tune(ridges, np.ones(3), ONE_EACH, bounds=(1e-3, 1e3))
    best = minimize(closed, np.zeros(3), bounds=[(np.log(1e-3), np.log(1e3))] * 3)
    assert found.converged
    assert found.loss == pytest.approx(closed(np.log(found.alpha)), rel=1e-9)
    assert found.loss <= best.fun + 1e-3 * found.result.se
    assert found.loss < min(closed(np.full(3, np.log(a))) for a in np.geomspace(1e-3, 1e3, 49))
    assert len(found.alphas) == len(found.losses)
    assert found.losses[0] == pytest.approx(closed(np.zeros(3)), rel=1e-9)
    assert found.losses.min() == pytest.approx(found.loss, rel=1e-9)


def test_what_ends_at_a_bound_is_said():
    """Two columns of noise: their ridge runs to the upper bound."""
    found = acv.tune(ridges, np.ones(3), ONE_EACH, bounds=(0.5, 20.0))
    assert found.at_bound.any()
    bounded = found.alpha[found.at_bound]
    assert np.isin(np.round(bounded, 9), [0.5, 20.0]).all()
    uphill = np.where(found.alpha < 1.0, found.gradient, -found.gradient)
    assert (uphill[found.at_bound] > -1e-9).all()  # there the loss would fall beyond the bound only


def test_bounds_must_be_positive_and_finite():
    for bounds in ((0.0, 2.0), (0.5, np.inf)):
        with pytest.raises(ValueError, match="must be positive and finite"):
            acv.tune(ridges, np.ones(3), ONE_EACH, bounds=bounds)


def test_an_error_names_the_alpha():
    def fails(alpha):
        if alpha[0] > 1.5:
            raise ValueError("no such model")
        return ridges(alpha)

    with pytest.raises(ValueError, match="no such model") as caught:
        acv.tune(fails, np.ones(3), ONE_EACH)
    assert "tune met this at alpha" in caught.value.__notes__[0]


def test_refits_that_end_elsewhere_are_told(monkeypatch):
    def elsewhere(fit, folds, tolerance):
        result = acv.exact(fit, folds, tolerance)
        return replace(result, losses=[each + 1e-2 for each in result.losses])

    monkeypatch.setattr("acvlib.beyond.tune.exact", elsewhere)
    with pytest.warns(OtherOptimum, match="two optima"):
        acv.tune(ridges, np.ones(3), ONE_EACH, max_evaluations=1)
