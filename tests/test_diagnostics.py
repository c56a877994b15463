"""Flags against true distances from the exact refits;
estimates and refitted results against exact CV.
"""

import numpy as np
import pytest
from oracles.toy_models import CurvedInstruments, Logistic

import acvlib as acv

KINDS = ["objective", "equation"]


def model_of(kind, n=200):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    if kind == "objective":
        return Logistic(x, np.sign(x[:, 0] + rng.normal(size=n)))
    y = np.exp(x @ [1.0, -1.0] / 4) + 0.3 * rng.normal(size=n)
    return CurvedInstruments(x + 0.3 * rng.normal(size=(n, 2)), x, y)


@pytest.mark.parametrize("kind", KINDS)
def test_flags_are_the_distances_from_the_exact_refits(kind):
    model = model_of(kind)
    fit, folds = acv.fit(model), acv.folds.k_fold(model.n_sites, 20, np.random.default_rng(1))
    still, exact = acv.no_adjustment(model, fit, folds), acv.exact(model, fit, folds)
    distance = fit.standard_errors_between(still.params, exact.params)
    between = np.median(distance)
    close_call = abs(distance / between - 1) < 0.3
    assert (acv.flag(model, still, between) == (distance > between))[~close_call].all()
    assert (~close_call).sum() >= 10
    assert not acv.flag(model, exact, 1e-4).any()


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_ascend_are_flagged(kind):
    model = model_of(kind)
    fit, folds = acv.fit(model), acv.folds.k_fold(model.n_sites, 4, np.random.default_rng(1))
    frozen = acv.frozen_newton(model, fit, folds)
    frozen.params[2] += 3.0
    assert acv.flag(model, frozen).tolist() == [False, False, True, False]
    refitted = acv.refit_flagged(model, frozen, acv.flag(model, frozen))
    np.testing.assert_allclose(
        refitted.params[2], acv.exact(model, fit, folds).params[2], atol=1e-8
    )
    assert "1 folds refitted" in refitted.method


@pytest.mark.parametrize("flagged", [[0, 2], [True] * 3, np.ones((4, 1), bool)])
def test_flags_that_are_not_one_bool_a_fold_are_refused(flagged):
    model = model_of("objective")
    fit, folds = acv.fit(model), acv.folds.k_fold(model.n_sites, 4)
    result = acv.no_adjustment(model, fit, folds)
    with pytest.raises(ValueError, match="flagged must be"):
        acv.refit_flagged(model, result, flagged)
