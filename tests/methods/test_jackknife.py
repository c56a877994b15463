"""The infinitesimal jackknife against central differences of tight refits, and by its rate."""

from dataclasses import replace

import numpy as np
import pytest
from ladder_cases import (
    CASES,
    DROPPING,
    FOLDS,
    SMALL,
    TRAFFIC,
    case,
    errors_at_shares,
    left_out,
    tight_refit,
)
from numpy.testing import assert_allclose

import acvlib as acv


@pytest.mark.parametrize("name", SMALL)
def test_jackknife_is_the_derivative_of_tight_refits(name, fits):
    model, fit, h = SMALL[name], fits[name], 1e-4
    step = acv.infinitesimal_jackknife(fit, FOLDS).params - fit.params
    for i, fold in enumerate(FOLDS):
        ahead, behind = (tight_refit(model, fit.params, left_out(model, fold, s)) for s in (h, -h))
        assert_allclose(
            step[i], (ahead - behind) / (2 * h), rtol=0, atol=1e-6 * np.abs(step[i]).max()
        )


@pytest.mark.parametrize("model", [TRAFFIC, DROPPING], ids=["A", "B"])
def test_jackknife_is_the_derivative_of_tight_refits_of_traffic(model, traffic_fit):
    """Weights above 1 are refused, so that the difference is one-sided: its error is O(h^4)."""
    fold, h = np.flatnonzero(model.observed)[200:210], 0.004
    fit = replace(traffic_fit, model=model)
    step = acv.infinitesimal_jackknife(fit, [fold]).params[0] - fit.params
    at = [tight_refit(model, traffic_fit.params, left_out(model, fold, i * h)) for i in range(5)]
    slope = np.array([-25, 48, -36, 16, -3]) @ np.array(at) / (12 * h)
    assert_allclose(step, slope, rtol=0, atol=1e-6 * np.abs(step).max())


@pytest.mark.parametrize("name", CASES)
def test_half_the_perturbation_gives_a_quarter_of_the_jackknifes_error(name, fits, traffic_fit):
    """And half of that of no adjustment, the negative control."""
    model, fit, fold = case(name, fits, traffic_fit)
    step = acv.infinitesimal_jackknife(fit, [fold]).params[0] - fit.params
    for move, low, high in ((step, 3.5, 4.5), (0.0 * step, 1.8, 2.2)):
        errors = errors_at_shares(model, fit, fold, move, [0.02, 0.01, 0.005])
        ratios = errors[:-1] / errors[1:]
        assert ((ratios > low) & (ratios < high)).all(), errors
