"""Schemes A and B: weights of the factors, and where they agree (Ghosh et al. 2020, Prop. 3)."""

import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose
from oracles.toy_models import TRAFFIC_PARAMS, simulate_traffic

from acvlib import folds, weighting
from acvlib.models import PoissonTraffic

SERIES = simulate_traffic(np.random.default_rng(0), 40, days=9, missing=0.0)
A, B = (PoissonTraffic(*SERIES, s) for s in (weighting.keep_latents, weighting.drop_latents))


@pytest.mark.parametrize("start", [1, 20, 39, 40])
def test_proposition_3_schemes_agree_when_the_future_or_nothing_is_left_out(start):
    weights = folds.weights(40, np.arange(start, 40))
    values = [model.objective(TRAFFIC_PARAMS, weights) for model in (A, B)]
    assert_allclose(values[0] - values[1], (40 - start) * np.log(2), rtol=1e-12)
    slopes = [grad(model.objective)(TRAFFIC_PARAMS, weights) for model in (A, B)]
    assert_allclose(*slopes, rtol=0, atol=1e-12 if start < 40 else 0)


def test_a_label_has_at_most_all_of_its_weight_and_is_one():
    for weight, label in ((2.0, 0), (-1.0, 0), (1.0, -1)):
        with pytest.raises(ValueError, match="of site 0 is (not from 0 to 1|outside)"):
            weighting.hide_labels(np.array([weight]), np.array([label]), 2)


def test_a_scheme_of_the_user_returns_three_arrays():
    ones = np.ones(A.n_sites)
    mine = PoissonTraffic(*SERIES, lambda w, edges: tuple(weighting.drop_latents(w, edges)))
    assert mine.objective(TRAFFIC_PARAMS, ones) == B.objective(TRAFFIC_PARAMS, ones)
    for wrong in (lambda w, edges: w, lambda w, edges: (w, w, w), lambda w, edges: None):
        with pytest.raises(TypeError, match="scheme must return .observation, latent, edge."):
            PoissonTraffic(*SERIES, wrong).objective(TRAFFIC_PARAMS, ones)
