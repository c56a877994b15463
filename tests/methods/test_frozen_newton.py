"""The frozen step beside the jackknife, and its repetition down to the exact refit."""

import numpy as np
import pytest
from ladder_cases import FOLDS, SMALL, TIGHT
from numpy.testing import assert_allclose

import acvlib as acv


@pytest.mark.filterwarnings("ignore::acvlib.trials.UnconvergedFit")
@pytest.mark.parametrize("away", [0.0, 0.3])
@pytest.mark.parametrize("name", SMALL)
def test_for_linear_weights_a_frozen_step_is_the_jackknife_but_for_the_gradient(name, away, fits):
    """From any point, converged or not: frozen - jackknife = -H^-1 gradient."""
    fit = acv.fit_at(SMALL[name], fits[name].params + away)
    rungs = (acv.frozen_newton(fit, FOLDS, rescale=False), acv.infinitesimal_jackknife(fit, FOLDS))
    _, gradient = fit.derivatives.value_and_gradient(fit.params, np.ones(60))
    gap = np.tile(-np.linalg.solve(fit.hessian, gradient), (3, 1))
    assert_allclose(rungs[0].params - rungs[1].params, gap, rtol=0, atol=1e-10)


def test_negative_control_for_traffic_the_frozen_step_is_not_the_jackknife(
    traffic_fit, traffic_folds
):
    frozen = acv.frozen_newton(traffic_fit, traffic_folds, rescale=False)
    jackknife = acv.infinitesimal_jackknife(traffic_fit, traffic_folds)
    assert traffic_fit.standard_errors_between(frozen.params, jackknife.params).max() > 0.01


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("name", [*SMALL, "traffic"])
def test_repeated_frozen_steps_converge_to_the_exact_refit(
    name, rescale, fits, traffic_fit, traffic_folds
):
    traffic = name == "traffic"
    fit, folds = (traffic_fit, traffic_folds[:20]) if traffic else (fits[name], FOLDS)
    exact = acv.exact(fit, folds, tolerance=1e-6 if traffic else TIGHT)
    rows = [acv.frozen_newton(fit, folds, steps=s, rescale=rescale).params for s in (1, 2, 4, 60)]
    worst = np.median if traffic else np.max
    errors = [worst(fit.standard_errors_between(row, exact.params)) for row in rows]
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < (2e-6 if traffic else 1e-7)


def test_rescaling_divides_the_step_by_the_share_that_is_kept(fits):
    plain = acv.frozen_newton(fits["ridge"], FOLDS, rescale=False).params - fits["ridge"].params
    scaled = acv.frozen_newton(fits["ridge"], FOLDS).params - fits["ridge"].params
    assert_allclose(scaled * np.array([[59.0], [50.0], [56.0]]) / 60, plain, rtol=1e-12)
