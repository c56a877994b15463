"""Models answer to their protocols; fits and results are frozen."""

import numpy as np
import pytest
from ladder_cases import CURVED, FOLDS, INSTRUMENTS, LOGISTIC, RIDGE, TRAFFIC

import acvlib as acv


def test_models_answer_to_their_protocols():
    assert all(isinstance(model, acv.Model) for model in (RIDGE, LOGISTIC, TRAFFIC))
    assert all(isinstance(model, acv.EstimatingEquation) for model in (INSTRUMENTS, CURVED))
    assert not isinstance(INSTRUMENTS, acv.Model)
    assert not isinstance(RIDGE, acv.EstimatingEquation)


def test_fits_and_results_cannot_be_changed(fits):
    with pytest.raises(AttributeError):
        fits["ridge"].params = np.zeros(3)
    with pytest.raises(AttributeError):
        acv.no_adjustment(fits["ridge"], FOLDS).method = "exact"
