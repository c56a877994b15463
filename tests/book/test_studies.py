"""The studies of chapters on small cases, against counting, refitting and computing by hand."""

import numpy as np
import pandas as pd
import pytest
from acvbook import datasets
from acvbook.datasets.philadelphia import hexagons
from acvbook.lissa import lissa
from acvbook.studies import counting, glm_rates, mocap_fits, mocap_orders, mrf, self_check, traffic
from acvbook.theorem1 import THIRDS, Ball, theorem1
from autograd import grad, hessian
from numpy.random import default_rng
from numpy.testing import assert_allclose
from oracles.toy_models import FIRM
from oracles.wrappers import raises

import acvlib as acv
from acvlib.models import FAMILIES, GLM, EmptyState, PoissonTraffic


@pytest.mark.parametrize("law", glm_rates.LAWS)
def test_laws_have_variance_one_and_the_sub_gaussian_constant_they_name(law):
    draw, c_squared = glm_rates.LAWS[law]
    x = draw(default_rng(0), 2_000_000)
    assert_allclose([x.mean(), x.var()], [0.0, 1.0], atol=0.005)
    assert_allclose(np.exp(x**2 / c_squared).mean(), 2.0, rtol=0.03)


def test_largest_errors_are_those_of_refits_without_the_rows_delta_errors_standard_errors():
    largest = glm_rates.leave_k_out("bounded", [60], 5, 2, 1, default_rng(1)).iloc[0]
    assert largest.none > largest.ij > largest.ns > 0.0
    model = glm_rates.logistic_data("bounded", 60, 2, default_rng(1))
    full = acv.fit(model, tolerance=1e-10)
    moves = []
    pull = acv.infinitesimal_jackknife(full, acv.folds.leave_one_out(60)).params[:, 0]
    for rows in np.argsort(pull).reshape(-1, 5):  # that pull alike
        kept = np.setdiff1d(np.arange(60), rows)
        alone = acv.fit(GLM(model.X[kept], model.y[kept]), tolerance=1e-10)
        moves.append(np.linalg.norm(alone.params - full.params))
    assert_allclose(largest.none, max(moves), rtol=1e-6)
    y = default_rng(0).normal(size=50)
    model = GLM(np.ones((50, 1)), y, "gaussian", intercept=False)
    assert_allclose(glm_rates.delta_errors(model, acv.fit(model)), y.std() / np.sqrt(50))


def test_rates_of_marks_by_hand():
    far = np.array([1, 1, 1, 0, 0, 0, 0, 0])
    marked = np.array([1, 1, 0, 1, 0, 0, 0, 0], bool)
    table = pd.DataFrame({"theta_error": far, "loss_error": 0, "unreliable": marked})
    rates = self_check.overall(table.assign(gradients=1, method="newton_step"))
    assert_allclose(rates[["recall", "precision", "share_far"]], [2 / 3, 2 / 3, 3 / 8])


def test_an_estimate_is_that_of_the_library():
    x = default_rng(0).normal(size=(60, 3))
    model = GLM(x, default_rng(1).poisson(np.exp(0.5 * x[:, 0])) * 1.0, "poisson")
    rungs = acv.ladder(acv.fit(model), acv.folds.leave_one_out(60))
    ij = rungs["infinitesimal_jackknife"]
    table = traffic.estimates(rungs["exact"], ij, 10, 3, default_rng(5))
    direct = acv.difference_estimate(ij, 10, default_rng(5))
    assert_allclose(table.loc[0, ["estimate", "se"]].astype(float), direct[:2], rtol=1e-6)


def test_measures_of_a_draw_are_those_of_its_ten_folds_and_calls_are_counted():
    """And the meter is taken off."""
    data = datasets.simulate_dodgers(default_rng(0)).head(6_000)
    model = PoissonTraffic(data.counts, data.day)
    fit = acv.fit(model)
    rungs = traffic.redraws(model, fit, 2, default_rng(0))["contiguous", 5]
    losses = {name: np.concatenate(rung.losses[10:]) for name, rung in rungs.items()}
    names = ("no_adjustment", "infinitesimal_jackknife", "exact", "newton_step")
    none, ij, exact, ns = (losses[name] for name in names)
    row = traffic.by_draw(rungs).loc[1].swaplevel()["infinitesimal_jackknife"]
    assert_allclose(row["R"], np.corrcoef(ij, exact)[0, 1])
    assert_allclose(row["R of differences"], np.corrcoef(ij - none, exact - none)[0, 1])
    assert_allclose(row["per point"], np.mean(np.abs(ij - exact) / exact))
    pair = rungs["exact"], rungs["infinitesimal_jackknife"]
    assert_allclose(row["relative error"], acv.relative_errors(*pair)[10:].mean())
    assert_allclose(row["in_se"], abs(np.mean(ij - exact)) / traffic.one_draw(rungs, 1)["exact"].se)
    fourth = traffic.newton_against(rungs)
    assert_allclose(fourth.differences[1], np.corrcoef(ns - none, ij - none)[0, 1])
    derivatives = acv.derivatives_of(model)
    folds = traffic.folds_of("iid", model, 10, 7, default_rng(0))
    with counting.metered(derivatives) as (calls, seconds):
        acv.newton_step(fit, folds)
    assert calls == {"fold_gradients": 7, "fold_hessians": 7, "heldout": 7}
    assert all(seconds[name] > 0 for name in calls)
    with counting.metered(derivatives) as (again, _):
        pass
    acv.newton_step(fit, folds)
    assert not again


def test_the_authors_way_finds_the_same_params():
    data = datasets.simulate_dodgers(default_rng(3)).head(2_600)
    model = PoissonTraffic(data.counts[-100:], data.day[-100:], prior=FIRM)
    fit = acv.fit(model)
    found = counting.authors_way(model, fit, traffic.folds_of("iid", model, 5, 2, default_rng(0)))
    assert max(found["ij_theta"], found["ns_theta"]) < 1e-6
    assert found["theta"] < 0.05 < found["theta_none"]
    assert found["gradients"] > 5
    assert found["exact_over_ij"] > found["ns_over_ij"] > 0


def test_a_step_by_tract_is_a_step_of_em_which_never_raises_the_objective_and_sorts():
    """The paper's coupling counts every edge twice."""
    outlines, edges = hexagons(6, 5)
    counts = default_rng(0).poisson(np.where(np.arange(30) < 14, 4, 15))
    tracts = datasets.Areas(counts, edges, "simulated", "", "small", outlines)
    field = mrf.every_rung(tracts, 0.3, acv.folds.leave_one_out(30))
    assert mrf.hidden_field(tracts, 0.3).coupling == 0.6
    model, params = field.model, field.fit.params + 0.1
    weights = acv.folds.weights(30, [3, 4])
    expected = mrf.maximise(model, params, weights)
    assert_allclose(mrf.maximise_by_tract(model, params, weights), expected, rtol=1e-12)
    weights = acv.folds.weights(30, [3, 20])
    params, values = field.fit.params[::-1], []
    for _ in range(8):
        values.append(model.objective(params, weights))
        params = mrf.maximise(model, params, weights)
    assert (np.diff(values) < 0).all()
    switched = mrf.em(model, weights, params).params
    assert switched[0] < switched[1]
    assert_allclose(switched, mrf.em(model, weights).params, rtol=0, atol=1e-8)
    raises("the states hold", mrf.em, model, error=EmptyState, start=np.array([-1e3, 3.0]))


FREE = {"dense_limit": 0}  # small models on the path of large ones


@pytest.mark.filterwarnings("ignore:.*indefinite Hessian")  # 8 sequences say little of a network
def test_the_summary_of_a_split(rng):
    whole = datasets.simulate_mocap(rng).sequences[:12]
    data = datasets.Mocap([sequence[:25, :2] for sequence in whole], 30, "simulated", "")
    train, test = mocap_fits.split(data, 8, rng)
    given = 2, mocap_fits.emissions((0, 1), (1,)), default_rng(1), 2
    fitted = mocap_fits.fit_all(train.sequences, *given, context=2, **FREE)
    left_out = mocap_orders.leave_one_sequence_out
    studied = {name: left_out(one, test.sequences) for name, one in fitted.items()}
    table = mocap_orders.summary(studied)
    rungs, test = studied["AR(0)"].rungs, studied["AR(0)"].test
    exact, none, ij = (rungs[n] for n in ("exact", "no_adjustment", "infinitesimal_jackknife"))
    row = table.loc["AR(0)", "infinitesimal_jackknife"]
    both = np.hypot(exact.se, test.std(ddof=1) / np.sqrt(len(test)))
    theta = exact.fit.standard_errors_between(exact.params, ij.params)
    moves = exact.fit.standard_errors_between(exact.params, exact.fit.params)
    added = [cv.fold_losses - none.fold_losses for cv in (ij, exact)]
    known = {
        "loss": ij.fold_losses.mean(),
        "gap": abs(ij.loss - exact.loss) / exact.se,
        "track": abs(ij.loss - test.mean()) / both,
        "theta": np.median(theta),
        "share": np.median(theta) / np.median(moves),
        "beats_none": (theta < moves).mean(),
        "differences": np.corrcoef(*added)[0, 1],
    }
    assert row[[*known]].to_dict() == pytest.approx(known)
    over = test - studied["AR(1)"].test
    paired = over.mean() / over.std(ddof=1) * np.sqrt(len(over))
    assert table.over_ar1["AR(0)", "test"] == pytest.approx(paired)
    indefinite = studied["NAR(1)"].rungs["newton_step"].indefinite.sum()
    assert table.indefinite["NAR(1)", "newton_step"] == indefinite


def glm_of(family, n, penalty=0.0, seed=0):
    rng = default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 2))
    mean = FAMILIES[family].mean(x @ np.array([0.5, -0.3]))
    y = rng.poisson(mean) if family == "poisson" else rng.binomial(1, mean)
    return GLM(x, y, family, penalty=penalty)


@pytest.mark.parametrize("penalty", [0.0, 3.0])
@pytest.mark.parametrize("family", THIRDS)
def test_the_bound_holds_where_it_applies_and_it_applies_to_many_data(family, penalty):
    glm = glm_of(family, 20_000, penalty)
    fit, folds = acv.fit(glm, tolerance=1e-10), acv.folds.leave_one_out(20_000)[:300]
    theorem = theorem1(fit, folds)
    jackknife = acv.infinitesimal_jackknife(fit, folds)
    exact = acv.exact(fit, folds, tolerance=1e-10)
    actual = np.linalg.norm(jackknife.params - exact.params, axis=1)
    assert theorem.applies.all()
    assert (actual <= theorem.bound).all()
    assert (actual > 1e-6 * theorem.bound).any()  # not vacuous


@pytest.mark.parametrize("family", THIRDS)
def test_the_constants_are_suprema_over_the_ball(family):
    of_none = GLM(np.arange(20.0)[:, None] / 20, np.arange(20.0), "gaussian")
    raises("gaussian family has no constants", theorem1, acv.fit(of_none), [[0]])
    glm, radius, rng = glm_of(family, 40), 0.4, default_rng(1)
    fit = acv.fit(glm)
    ball, folds = Ball(glm, fit.params, radius), acv.folds.leave_one_out(40)
    deltas, one = ball.deltas(folds), np.ones(40)

    def term(params, n):
        return glm.objective(params, (np.arange(40) == n) * 1.0)

    for _ in range(20):
        direction = rng.normal(size=3)
        params = fit.params + radius * rng.random() * direction / np.linalg.norm(direction)
        inverse = np.linalg.inv(hessian(glm.objective)(params, one) / 40)
        assert np.linalg.norm(inverse, 2) <= ball.c_op() * (1 + 1e-12)
        change = [hessian(term)(params, n) - hessian(term)(fit.params, n) for n in range(40)]
        lipschitz = np.linalg.norm(change) / np.sqrt(40) / np.linalg.norm(params - fit.params)
        assert lipschitz <= ball.l_h() * (1 + 1e-12)
        for n in range(0, 40, 8):
            sums = abs(grad(term)(params, n)).sum(), abs(hessian(term)(params, n)).sum()
            assert max(sums) / 40 <= deltas[n] * (1 + 1e-12)


class Dense:
    """A matrix that is a mean of `parts`, which a sample takes some of."""

    def __init__(self, parts):
        self.parts, self.matrix = parts, np.mean(parts, axis=0)

    def sampled(self, rng, size):
        return Dense(self.parts[rng.choice(len(self.parts), size, replace=False)])

    def multiply(self, vectors, rows):
        return vectors @ self.matrix

    def precondition(self, vectors, rows):
        return vectors.copy()


def test_with_all_of_h_lissa_is_the_solution_and_more_sites_come_nearer_or_it_does_not_agree():
    """What has not converged does not agree."""
    x = default_rng(0).standard_normal((200, 5))
    products = Dense(np.einsum("ni,nj->nij", x, x) + 0.3 * np.eye(5))
    b, rng = default_rng(1).standard_normal((3, 5)), default_rng(2)
    x, distance = lissa(products, b, rng, damping=0.2)
    assert_allclose(x, np.linalg.solve(products.matrix + 0.2 * np.eye(5), b.T).T, rtol=1e-4)
    assert (distance < 1e-4).all()
    b, settings = np.ones((1, 5)), {"scale": 30.0, "depth": 600}
    runs = [lissa(products, b, default_rng(3), size=n, **settings) for n in (20, 200)]
    few, all_of_them = (run[1][0] for run in runs)
    assert all_of_them < 1e-3 < few < 0.5
    for settings in ({"depth": 2}, {"scale": 0.01, "depth": 300}):
        x, (distance,) = lissa(products, np.ones((1, 5)), default_rng(0), **settings)
        assert distance > 0.1
        assert np.isinf(x).all() == ("scale" in settings)
