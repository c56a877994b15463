"""The infinitesimal jackknife against central differences of tight refits, and by its rate."""

import pytest
from ladder_cases import (
    CASES,
    case,
    errors_at_shares,
)

import acvlib as acv


@pytest.mark.parametrize("name", CASES)
def test_half_the_perturbation_gives_a_quarter_of_the_jackknifes_error(name, fits, traffic_fit):
    """And half of that of no adjustment, the negative control."""
    model, fit, fold = case(name, fits, traffic_fit)
    step = acv.infinitesimal_jackknife(fit, [fold]).params[0] - fit.params
    for move, low, high in ((step, 3.5, 4.5), (0.0 * step, 1.8, 2.2)):
        errors = errors_at_shares(model, fit, fold, move, [0.02, 0.01, 0.005])
        ratios = errors[:-1] / errors[1:]
        assert ((ratios > low) & (ratios < high)).all(), errors
