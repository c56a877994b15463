"""The most influential sites against deletion and refit, and refusals of conclusions."""

from itertools import combinations

import autograd.numpy as anp
import numpy as np
import pytest
from ladder_cases import INSTRUMENTS, TRAFFIC

import acvlib as acv
from acvlib.models import GLM


def slope(params):
    return params[0]


@pytest.fixture(scope="module")
def regression():
    """Twelve rows, two of which mask each other: either alone holds the line."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((12, 1))
    y = x[:, 0] + 0.3 * rng.standard_normal(12)
    x[:2] = 4.0
    y[:2] = -6.0, -6.2
    model = GLM(x, y, "gaussian")
    return model, acv.fit(model)


def refitted(model, sites):
    """phi without the sites, by a model of the other rows."""
    rest = np.delete(np.arange(model.n_sites), sites)
    return slope(acv.fit(GLM(model.X[rest], model.y[rest], "gaussian")).params)


def test_greedy_finds_the_best_of_all_pairs(regression):
    model, fit = regression
    greedy = acv.most_influential(fit, slope, 2, "greedy")
    best = max(combinations(range(12), 2), key=lambda pair: refitted(model, pair))
    assert set(greedy.sites) == set(best)
    assert greedy.exact >= acv.most_influential(fit, slope, 2).exact
    assert greedy.exact == pytest.approx(greedy.path[-1], abs=1e-9)


def test_greedy_linearises_anew_at_each_refit(regression):
    model, fit = regression
    greedy = acv.most_influential(fit, slope, 3, "greedy")
    left = list(range(12))
    for site in greedy.sites:
        part = GLM(model.X[left], model.y[left], "gaussian")
        alone = acv.most_influential(acv.fit(part), slope, 1, verify=False)
        assert left.pop(alone.sites[0]) == site
        assert np.isnan(alone.exact)
        assert alone.params is None


def test_hidden_states(traffic_fit):
    def stay(params):
        return TRAFFIC.unpack(params).stay[1]

    one = acv.most_influential(traffic_fit, stay, 5)
    greedy = acv.most_influential(traffic_fit, stay, 5, "greedy")
    assert greedy.exact >= one.exact > 0.0
    assert np.isnan(one.psi[~TRAFFIC.observed]).all()
    rng = np.random.default_rng(0)
    observed = np.flatnonzero(TRAFFIC.observed)
    folds = acv.Folds([rng.choice(observed, 5, replace=False) for _ in range(20)])
    others = [stay(params) for params in acv.exact(traffic_fit, folds).params]
    assert one.exact > max(others) - one.phi
    linear = acv.most_influential(traffic_fit, lambda p: p[10], 5)
    jackknife = acv.infinitesimal_jackknife(traffic_fit, acv.Folds([linear.sites]))
    assert linear.linear == pytest.approx(jackknife.params[0, 10] - traffic_fit.params[10])


BAD = {
    "there is nothing to move": lambda p: 0.0 * p[0] + 3.0,
    "with a finite gradient": lambda p: anp.log(0.0 * p[0]),
    "is not differentiable at the fit": lambda p: anp.floor(1e6 * p[0]) + p[0],
}


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("message", BAD)
def test_conclusions_without_a_gradient_are_named(regression, message):
    model, fit = regression
    with pytest.raises(ValueError, match=message):
        acv.most_influential(fit, BAD[message], 2)


def test_an_equation_has_no_influence():
    with pytest.raises(TypeError, match="EstimatingEquation"):
        acv.most_influential(acv.fit(INSTRUMENTS), slope, 2)
