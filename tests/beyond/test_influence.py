"""The most influential sites against deletion and refit, and refusals of conclusions."""

from itertools import combinations

import autograd.numpy as anp
import numpy as np
import pytest
from ladder_cases import INSTRUMENTS, TRAFFIC
from oracles.wrappers import raises

import acvlib as acv
from acvlib.models import GLM


def slope(params):
    return params[0]


BAD = {
    "there is nothing to move": lambda p: 0.0 * p[0] + 3.0,
    "with a finite gradient": lambda p: anp.log(0.0 * p[0]),
    "is not differentiable at the fit": lambda p: anp.floor(1e6 * p[0]) + p[0],
}


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_greedy_finds_the_best_of_all_pairs_linearising_anew_if_there_is_a_gradient():
    """Of twelve rows, two of which mask each other: either alone holds the line."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((12, 1))
    y = x[:, 0] + 0.3 * rng.standard_normal(12)
    x[:2] = 4.0
    y[:2] = -6.0, -6.2
    fit = acv.fit(GLM(x, y, "gaussian"))

    def refitted(sites):
        rest = np.delete(np.arange(12), sites)
        return slope(acv.fit(GLM(x[rest], y[rest], "gaussian")).params)

    greedy = acv.most_influential(fit, slope, 2, "greedy")
    assert set(greedy.sites) == set(max(combinations(range(12), 2), key=refitted))
    assert greedy.exact >= acv.most_influential(fit, slope, 2).exact
    assert greedy.exact == pytest.approx(greedy.path[-1], abs=1e-9)
    greedy = acv.most_influential(fit, slope, 3, "greedy")
    left = list(range(12))
    for site in greedy.sites:
        part = GLM(x[left], y[left], "gaussian")
        alone = acv.most_influential(acv.fit(part), slope, 1, verify=False)
        assert left.pop(alone.sites[0]) == site
        assert np.isnan(alone.exact)
        assert alone.params is None
    for message, phi in BAD.items():
        raises(message, acv.most_influential, fit, phi, 2)


def test_hidden_states(traffic_fit, rng):
    def stay(params):
        return TRAFFIC.unpack(params).stay[1]

    one = acv.most_influential(traffic_fit, stay, 5)
    assert acv.most_influential(traffic_fit, stay, 5, "greedy").exact >= one.exact > 0.0
    assert np.isnan(one.psi[~TRAFFIC.observed]).all()
    observed = np.flatnonzero(TRAFFIC.observed)
    folds = acv.Folds([rng.choice(observed, 5, replace=False) for _ in range(20)])
    others = [stay(params) for params in acv.exact(traffic_fit, folds).params]
    assert one.exact > max(others) - one.phi
    linear = acv.most_influential(traffic_fit, lambda p: p[10], 5)
    jackknife = acv.infinitesimal_jackknife(traffic_fit, acv.Folds([linear.sites]))
    assert linear.linear == pytest.approx(jackknife.params[0, 10] - traffic_fit.params[10])


RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2)) * [1.0, 1e4] + [0.0, 2000.0]
Z = np.column_stack([np.ones(30), X])
W = RNG.choice([0.5, 1.0, 2.0, 0.0], 30, p=[0.3, 0.3, 0.3, 0.1])
GAUSSIAN = X @ [1.0, 3e-4] + RNG.normal(size=30)


def table(y, family):
    fit = acv.fit(acv.models.GLM(X, y, family=family, sample_weight=W))
    return fit, acv.influence(fit)


def test_of_a_line_it_is_the_refits_without_each_row():
    fit, found = table(GAUSSIAN, "gaussian")
    kept = np.flatnonzero(W > 0.0)
    assert found.index.tolist() == kept.tolist()
    root = np.sqrt(W)[:, None]
    inverse = np.linalg.inv((root * Z).T @ (root * Z))

    def refit(rows):
        beta = np.linalg.lstsq((root * Z)[rows], (root[:, 0] * GAUSSIAN)[rows])[0]
        residuals = (root[:, 0] * (GAUSSIAN - Z @ beta))[rows]
        return beta, residuals @ residuals / (len(rows) - 3)

    beta, variance = refit(kept)
    for row in kept:
        without, s2 = refit(kept[kept != row])
        change = beta - without
        cook = change @ np.linalg.solve(inverse, change) / (3 * variance)
        dfbetas = change / np.sqrt(s2 * np.diag(inverse))
        leverage = W[row] * Z[row] @ inverse @ Z[row]
        assert np.allclose(found.loc[row], [leverage, cook, *dfbetas], rtol=1e-6)
    units = (0.0, 1.0, 1.0), (1e6, 0.1, 9.0)
    lines = [(level + scale * X[:, :1], size * GAUSSIAN) for level, scale, size in units]
    plain, moved = (acv.influence(acv.fit(acv.models.GLM(*xy, "gaussian"))) for xy in lines)
    assert np.allclose(plain.leverage, moved.leverage, rtol=1e-6)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_of_a_regression_it_is_pregibons(family, rng):
    """h = w v x' H^-1 x and r^2 h / (D (1 - h)^2), r Pearson's residual, from the fit alone."""
    y = rng.poisson(1.0, 30) if family == "poisson" else (rng.random(30) < 0.5) * 1
    fit, found = table(y, family)
    eta = Z @ fit.params
    mean = np.exp(eta) if family == "poisson" else 1 / (1 + np.exp(-eta))
    spread = W * (mean if family == "poisson" else mean * (1 - mean))
    h = spread * np.einsum("ni,ij,nj->n", Z, np.linalg.inv(Z.T @ (spread[:, None] * Z)), Z)
    kept = W > 0.0
    pearson = (W * (y - mean))[kept] ** 2 / spread[kept]
    assert np.allclose(found.leverage, h[kept], rtol=1e-6)
    assert np.isclose(found.leverage.sum(), 3.0)
    cook = pearson * h[kept] / (3 * (1 - h[kept]) ** 2)
    assert np.allclose(found.cooks_distance, cook, rtol=1e-6)


def test_of_hidden_states_it_counts_newton_steps():
    """d' H d / D of single frames; leverages of all frames are less than the parameters."""
    x = np.random.default_rng(0).normal(3 * (np.arange(80) // 10 % 2))
    fit = acv.fit(acv.models.GaussianHMM(x, n_states=2))
    found = acv.influence(fit)
    changes = fit.params - acv.newton_step(fit, acv.folds.leave_one_out(fit.model)).params
    squares = np.einsum("ni,ij,nj->n", changes, np.asarray(fit.hessian), changes)
    assert np.allclose(found.cooks_distance * len(fit.params), squares)
    assert found.shape == (80, 2 + len(fit.params))


def test_what_has_no_leverage_and_an_equation_are_refused():
    with pytest.raises(TypeError, match="EstimatingEquation"):
        acv.most_influential(acv.fit(INSTRUMENTS), slope, 2)
    fit = acv.fit(acv.models.GLM(X, np.column_stack([GAUSSIAN, GAUSSIAN]), family="gaussian"))
    raises("several targets", acv.influence, fit)
