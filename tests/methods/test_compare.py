"""The tables that compare methods and models, and what losses say of sites and folds."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from ladder_cases import FOLDS, X, Y
from numpy.testing import assert_allclose, assert_array_equal
from oracles.wrappers import raises

import acvlib as acv
from acvlib import compare
from acvlib.models import GLM

OVERLAPPING = [[0, 1, 2], [2, 3], [5]]


def exact(folds, columns=3, penalty=0.1):
    return acv.exact(acv.fit(GLM(X[:, :columns], Y, "gaussian", penalty=penalty)), folds)


def results_of(folds):
    return {f"{d} columns": exact(folds, d) for d in (3, 2, 1)}


def without(sites, d=3, ridge=0.1):
    """The losses of sites under a refit without them, in closed form."""
    design = np.column_stack([np.ones(60), X[:, :d]])
    kept = np.delete(design, sites, axis=0)
    curvature = kept.T @ kept + ridge * np.diag([0.0, *np.ones(d)])
    beta = np.linalg.solve(curvature, kept.T @ np.delete(Y, sites))
    return (Y[sites] - design[sites] @ beta) ** 2 / 2 + np.log(2 * np.pi) / 2


def test_methods_are_compared_by_loss_and_parameter_errors(fits):
    best, base = (method(fits["ridge"], FOLDS) for method in (acv.exact, acv.no_adjustment))
    table = acv.compare_methods(best, base)
    gap = fits["ridge"].standard_errors_between(base.params, best.params)
    relative = np.abs(base.fold_totals - best.fold_totals) / best.fold_totals
    errors = ["relative_error", "theta_error", "theta_error_max"]
    assert list(table.index) == ["exact", "no_adjustment"]
    assert table.loc["exact", errors].tolist() == [0.0] * 3
    found = table.loc["no_adjustment", errors].astype(float)
    assert_allclose(found, [relative.mean(), np.median(gap), gap.max()], rtol=1e-14)
    assert_allclose(table["loss"], [best.loss, base.loss], rtol=1e-15)
    assert "3 heldout" in table.loc["no_adjustment", "evaluations"]
    again = pickle.loads(pickle.dumps(best))  # a copy of the same fit is the same fit
    assert acv.compare_methods(best, again)["theta_error_max"].tolist() == [0.0, 0.0]


MOVED = acv.Folds([*FOLDS[:2], np.array([59, 20, 21, 41])])
FEWER = acv.Folds(list(FOLDS), [FOLDS[0], FOLDS[1][:4], FOLDS[2]])


@pytest.mark.parametrize("others", [FOLDS[:2], FOLDS[::-1], MOVED, FEWER])
def test_results_on_different_folds_are_not_compared(others, fits):
    ours, theirs = (acv.no_adjustment(fits["ridge"], folds) for folds in (FOLDS, others))
    message = r"were run on different folds .*\): run both on the same Folds"
    raises(f"no_adjustment and no_adjustment {message}", acv.compare_methods, ours, theirs)
    raises(f"a and b {message}", acv.compare_models, {"a": ours, "b": theirs})


def test_losses_are_in_data_order_with_nan_where_never_scored_and_errors_over_sites_or_folds():
    folds = acv.Folds([[7, 3], [40, 3, 12]])
    result = exact(folds, 3, 1e-8)
    expected = np.full((2, 60), np.nan)
    for row, fold in enumerate(folds):
        expected[row, fold] = without(fold, ridge=0.0)
    scored = [3, 7, 12, 40]
    assert_array_equal(np.flatnonzero(np.isfinite(result.pointwise)), scored)
    assert_allclose(result.pointwise[scored], np.nanmean(expected[:, scored], 0), rtol=1e-5)
    assert_allclose(result.fold_totals, np.nansum(expected, 1), rtol=1e-5)
    assert_allclose(result.fold_losses, np.nanmean(expected, 1), rtol=1e-5)
    assert_allclose(result.loss, np.nanmean(expected), rtol=1e-5)
    single = exact(acv.folds.leave_one_out(60))
    assert_allclose(single.se, single.pointwise.std(ddof=1) / np.sqrt(60), rtol=1e-13)
    assert single.se_over == "sites"
    result = exact(acv.folds.k_fold(60, 6))
    assert_allclose(result.se, result.fold_losses.std(ddof=1) / np.sqrt(6), rtol=1e-13)
    assert "se over 6 folds" in repr(result)
    result = exact(OVERLAPPING)
    gaps = np.concatenate(result.losses) - result.loss
    by_site = [gaps[0], gaps[1], gaps[2] + gaps[3], gaps[4], gaps[5]]
    assert_allclose(result.se, np.sqrt(5 / 4 * np.sum(np.square(by_site))) / 6, rtol=1e-12)
    assert "overlap" in result.se_over
    assert np.isnan(exact(OVERLAPPING[:1]).se)


def test_models_are_ranked_as_their_refits_predict_with_errors_over_sites_or_folds():
    table = acv.compare_models(results_of(acv.folds.leave_one_out(60)))
    losses = {d: np.concatenate([without([site], d) for site in range(60)]) for d in (3, 2, 1)}
    expected = {f"{d} columns": -each for d, each in losses.items()}
    order = sorted(expected, key=lambda name: -expected[name].sum())
    assert list(table.index) == order
    assert table["rank"].tolist() == [0, 1, 2]
    for name, elpd in expected.items():
        gap = expected[order[0]] - elpd
        row = table.loc[name]
        assert_allclose(row["elpd"], elpd.sum(), rtol=1e-8)
        assert_allclose(row["se"], elpd.std(ddof=1) * np.sqrt(60), rtol=1e-6)
        assert_allclose(row["elpd_diff"], gap.sum(), rtol=1e-6, atol=1e-9)
        assert_allclose(row["dse_paired"], gap.std(ddof=1) * np.sqrt(60), rtol=1e-6, atol=1e-9)
    assert set(table["se_over"]) == {"sites"}
    assert "weight" not in table
    results = results_of(acv.folds.k_fold(60, 6))
    table = acv.compare_models(results)
    best, worst = table.index[0], table.index[-1]
    gap = results[worst].fold_totals - results[best].fold_totals
    assert_allclose(table.loc[worst, "dse_paired"], gap.std(ddof=1) * np.sqrt(6), rtol=1e-12)
    assert set(table["se_over"]) == {"6 folds"}
    results = results_of(OVERLAPPING)  # a site scored twice counts once
    table = acv.compare_models(results)
    for name, result in results.items():
        assert_allclose(table.loc[name, "elpd"], -np.nansum(result.pointwise), rtol=1e-12)
    assert table["se_over"].str.contains("overlap").all()


def test_p_counts_the_parameters_of_a_linear_model(rng):
    """Under the model itself the effective number tends to the number of coefficients."""
    design = rng.standard_normal((4000, 9))
    model = GLM(design, design @ np.ones(9) + rng.standard_normal(4000), "gaussian")
    result = acv.exact(acv.fit(model), acv.folds.leave_one_out(4000))
    assert_allclose(result.p_loo, 10, rtol=0.1)
    assert acv.no_adjustment(result.fit, result.folds).p_loo == 0.0
    assert pickle.loads(pickle.dumps(result)).p_loo == result.p_loo


@pytest.mark.parametrize("surplus", [1, 4])
def test_close_models_differ_by_less_than_their_errors(rng, surplus):
    """The variance that pairs of losses miss, by its double sum; twice the surplus parameters."""
    n = 2000
    X = rng.standard_normal((n, 3 + surplus))
    y = X[:, 0] + rng.standard_normal(n)
    fits = [acv.fit(GLM(X[:, :k], y, "gaussian")) for k in (3, 3 + surplus)]
    influences = [compare._influences(fit, np.full(n, True)) for fit in fits]
    kernels = [cross.T @ moves for cross, moves in influences]
    gap = (kernels[0] - kernels[1]) ** 2
    found = compare.shared_error(*influences)
    assert_allclose(found**2, 2.0 * (gap.sum() - np.trace(gap)), rtol=1e-8)
    assert_allclose(found**2, 2.0 * surplus, rtol=0.2)


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_the_unit_of_weights_moves_no_error_and_sites_not_scored_add_none(rng, factor):
    X = rng.standard_normal((80, 4))
    y = 1.0 * (X[:, 0] + rng.logistic(size=80) > 0)
    tables = []
    for weight in (1.0, factor):
        fits = {d: acv.fit(GLM(X[:, :d], y, sample_weight=weight)) for d in (1, 4)}
        folds = acv.folds.leave_one_out(80)
        tables.append(acv.compare_models({d: acv.exact(f, folds) for d, f in fits.items()}))
    assert_allclose(tables[0].dse, tables[1].dse, rtol=1e-4)
    few = acv.compare_models({d: acv.exact(f, folds[:8]) for d, f in fits.items()})
    influences = [compare._influences(f, np.arange(80) < 8) for f in fits.values()]
    first, second = (G.T @ moves for G, moves in influences)
    gap = first + first.T - second - second.T
    assert_allclose(compare.shared_error(*influences) ** 2, np.sum(np.triu(gap, 1) ** 2), rtol=1e-8)
    assert few.dse.max() < tables[1].dse.max()


def test_what_cannot_be_compared_is_refused():
    ours = exact(FOLDS)
    shorter = GLM(X[:59], Y[:59], "gaussian", penalty=0.1)
    theirs = acv.exact(acv.fit(shorter), [fold[fold < 59] for fold in FOLDS])
    raises("of 60 sites, and .* of 59", acv.compare_models, {"a": ours, "b": theirs})
    broken = replace(ours, losses=[np.full(len(fold), np.inf) for fold in FOLDS])
    message = r"b: 14 of 60 sites .* not finite \(site 0 the first: inf\)"
    raises(message, acv.compare_models, {"a": ours, "b": broken})
    for nothing in ({}, [ours], {"a": ours.pointwise}):
        raises("one result a model", acv.compare_models, nothing)
    short = replace(ours, losses=[losses[:1] for losses in ours.losses])
    with pytest.raises(ValueError, match="1 losses of the 10 sites that fold 1 scores"):
        short.loss  # noqa: B018
    # Two models of equal size: distances between their parameters would mean nothing
    theirs = exact(FOLDS, 3, 2.0)
    assert ours.params.shape == theirs.params.shape
    raises(r"start from different fits .*compare_models\({name", acv.compare_methods, ours, theirs)
    raises("4 parameters.*against 3", acv.compare_methods, ours, exact(FOLDS, 2))
