"""The frozen step beside the jackknife, and its repetition down to the exact refit."""

import numpy as np
import pytest
from ladder_cases import FOLDS, LOGISTIC, SMALL, TIGHT
from numpy.testing import assert_allclose

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.trials import UnconvergedFit


@pytest.mark.parametrize("name", SMALL)
def test_for_linear_weights_one_frozen_step_is_the_jackknife(name, fits):
    frozen = acv.frozen_newton(fits[name], FOLDS, rescale=False)
    jackknife = acv.infinitesimal_jackknife(fits[name], FOLDS)
    assert_allclose(frozen.params, jackknife.params, rtol=0, atol=1e-9)


def test_for_linear_weights_the_two_differ_only_by_the_gradient_at_the_fit(fits):
    """From any point: frozen - jackknife = -H^-1 gradient, to 1e-10,
    whether the fit has converged or not.
    """
    fit = acv.fit_at(LOGISTIC, fits["logistic"].params + 0.3)
    with pytest.warns(UnconvergedFit):
        frozen = acv.frozen_newton(fit, FOLDS, rescale=False)
    with pytest.warns(UnconvergedFit):
        jackknife = acv.infinitesimal_jackknife(fit, FOLDS)
    _, gradient = derivatives_of(LOGISTIC).value_and_gradient(fit.params, np.ones(60))
    gap = np.tile(-np.linalg.solve(fit.metric, gradient), (3, 1))
    assert_allclose(frozen.params - jackknife.params, gap, rtol=0, atol=1e-10)


def test_negative_control_for_traffic_the_frozen_step_is_not_the_jackknife(
    traffic_fit, traffic_folds
):
    frozen = acv.frozen_newton(traffic_fit, traffic_folds, rescale=False)
    jackknife = acv.infinitesimal_jackknife(traffic_fit, traffic_folds)
    assert traffic_fit.standard_errors_between(frozen.params, jackknife.params).max() > 0.01


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_repeated_frozen_steps_converge_to_the_exact_refit(name, rescale, fits):
    fit, exact = fits[name], acv.exact(fits[name], FOLDS, tolerance=TIGHT)
    rows = [acv.frozen_newton(fit, FOLDS, steps=s, rescale=rescale).params for s in (1, 2, 4, 60)]
    errors = [fit.standard_errors_between(row, exact.params).max() for row in rows]
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < 1e-7


def test_repeated_frozen_steps_converge_to_the_exact_refit_of_traffic(
    traffic_fit, traffic_folds, traffic_exact
):
    rows = [acv.frozen_newton(traffic_fit, traffic_folds[:20], steps=s).params for s in (1, 3, 60)]
    errors = [
        np.median(traffic_fit.standard_errors_between(row, traffic_exact.params[:20]))
        for row in rows
    ]
    assert errors[0] > 2 * errors[1]
    assert errors[2] < 2e-6


def test_rescaling_divides_the_step_by_the_share_that_is_kept(fits):
    plain = acv.frozen_newton(fits["ridge"], FOLDS, rescale=False).params - fits["ridge"].params
    scaled = acv.frozen_newton(fits["ridge"], FOLDS).params - fits["ridge"].params
    assert_allclose(scaled * np.array([[59.0], [50.0], [56.0]]) / 60, plain, rtol=1e-12)
