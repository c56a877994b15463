"""Figures 3 and 4 of Giordano et al. (2019): times left out of a fit of gene expression."""

import itertools
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize

import acvlib as acv
from acvlib.results import Run
from acvlib.trials import UnconvergedFit

from ..gene_clusters import GeneClusters
from ..gene_clusters.derivatives import TwoStageJacobian
from ..gene_clusters.regression import spline_basis
from .ladders import ESTIMATES

N_EARLY = 7  # times that are left out, of 14
SCORED = {name: ESTIMATES[name] for name in ("train", "ij", "exact")}
SIZES = (1, 2, 3)  # how many times are left out at once


class Clustering(NamedTuple):
    """One df: the model, its fit, and by (estimate, times left out) a `CVResult`."""

    model: GeneClusters
    fit: acv.Fit
    results: dict[tuple[str, int], acv.CVResult]


def left_out(size, n_early=N_EARLY):
    """Every combination of `size` of the first times, as folds: a table (n_folds, size)."""
    return np.array(list(itertools.combinations(range(n_early), size)))


def clustering(expression, hours, df, n_clusters=18, **settings):
    """The model of genes (n_genes, n_times, n_replicates) on a spline basis of df."""
    return GeneClusters(expression, spline_basis(hours, df), n_clusters, **settings)


def every_rung(model, fit, folds, rungs=ESTIMATES):
    """A `Clustering`: each rung on the folds of each size, {size: (n_folds, size)}."""
    results = {(name, k): rung(fit, folds[k]) for name, rung in rungs.items() for k in folds}
    return Clustering(model, fit, results)


def cold_start(model, fit, folds, rng):
    """The authors' exact CV, a `CVResult`: k-means and all, from scratch for each fold."""
    run, rows, residuals = Run("cold_start", fit, folds), [], []
    for fold in run.folds:
        weights = acv.folds.weights(model.n_sites, fold)
        rows.append(model.solve(model.initial_params(rng, weights), weights).params)
        residuals.append(np.linalg.norm(model.residual(rows[-1], weights)))
    return run.finish(np.array(rows), {}, residual=np.array(residuals))


def summary(errors):
    """Mean, quartiles and mean square of parts of errors, a dict."""
    sizes = np.abs(np.concatenate([np.ravel(part) for part in errors]))
    low, median, high = np.quantile(sizes, (0.25, 0.5, 0.75))
    quartiles = {"low": low, "median": median, "high": high}
    return {"mean": sizes.mean(), **quartiles, "square": (sizes**2).mean()}


def error_table(run, test_expression):
    """`summary` of each estimate and of test genes' errors, by (estimate, left_out)."""
    rows = {}
    for key, result in run.results.items():
        pairs = zip(result.params, result.folds, strict=True)
        rows[key] = summary([run.model.errors(params)[:, fold].ravel() for params, fold in pairs])
    test = summary(run.model.errors_on(test_expression, run.fit.params)[:, :N_EARLY])
    rows |= {("test", size): test for _, size in run.results}
    return pd.DataFrame(rows).T.rename_axis(["estimate", "left_out"])


def seconds_table(run):
    """Seconds of the IJ of all combinations, of all refits, scoring included, by those that were
    made, and of one refit, by left_out.
    """
    rows = {}
    for k in sorted({size for _, size in run.results}):
        combinations = left_out(k)
        jackknife = acv.infinitesimal_jackknife(run.fit, combinations).seconds
        refit = run.results["exact", k].seconds / len(run.results["exact", k].folds)
        rows[k] = {"ij": jackknife, "exact": refit * len(combinations), "refit": refit}
    table = pd.DataFrame(rows).T.rename_axis("left_out")
    return table.assign(ratio=table.exact / table.ij)


def ladder(run):
    """How near each rung comes to exact CV's clustering, a dict: medians over single times in
    standard errors, the shares of all folds in which the frozen step is nearer than no adjustment
    and than the IJ, and seconds of the IJ for all combinations over those of a mean refit.
    """
    exact = {k: result for (name, k), result in run.results.items() if name == "exact"}
    results = run.results | {("ns", 1): acv.newton_step(run.fit, exact[1].folds)}
    results |= {("frozen", k): acv.frozen_newton(run.fit, exact[k].folds) for k in exact}
    own = slice(run.model.split(run.fit.params)[0].size, None)
    metric, away = run.fit.metric.tocsr()[own, own], {}
    for (name, k), result in results.items():
        gap = result.params[:, own] - exact[k].params[:, own]
        away[name, k] = (gap @ metric * gap).sum(axis=1)
    nearest, ij, train = (
        np.concatenate([away[name, k] for k in exact]) for name in ("frozen", "ij", "train")
    )
    rungs = {e.__name__: np.sqrt(np.median(away[name, 1])) for name, e in ESTIMATES.items()}
    count = sum(len(result.folds) for result in exact.values())
    refit = sum(result.seconds for result in exact.values()) / count
    return rungs | {
        "frozen_beats_none": np.mean(nearest < train),
        "frozen_beats_ij": np.mean(nearest < ij),
        "in_refits": acv.infinitesimal_jackknife(run.fit, every_fold()).seconds / refit,
    }


class Rebuilds(NamedTuple):
    """Figures 3 and 4 over rebuilds of the replicates.

    errors: mean absolute errors by (rebuild, df, left_out), a column an estimate; seconds:
    `seconds_table` by the same; residual: the worst |r| by (rebuild, df); largest: of the largest
    df, by rebuild, `ladder`.
    """

    errors: pd.DataFrame
    seconds: pd.DataFrame
    residual: pd.Series
    largest: pd.DataFrame


def over_rebuilds(data, dfs, n_clusters, n_rebuilds, rng, **settings):
    """Fit, leave out and score anew for each rebuild of the replicates; `Rebuilds`.

    Refits are dear: a rebuild makes one class of `balanced` ones, the next rebuild the next. Cold
    starts are dearer: `cold_folds`.
    """
    errors, seconds, residual, largest = {}, {}, {}, {}
    for number in range(n_rebuilds):
        expression = data.replicates(rng)
        folds, some = {k: balanced(k, number) for k in SIZES}, cold_folds(number)
        for df in dfs:
            model = clustering(expression[data.train], data.hours, df, n_clusters, **settings)
            run = every_rung(model, acv.fit(model, rng=rng), folds, SCORED)
            if df == max(dfs):
                largest[number] = ladder(run)
            cold = {("cold", k): cold_start(model, run.fit, some[k], rng) for k in some}
            run = run._replace(results=run.results | cold)
            errors[number, df] = error_table(run, expression[data.test])["mean"].unstack(0)
            seconds[number, df] = seconds_table(run)
            refits = [r for r in run.results.values() if r.method in ("exact", "cold_start")]
            worst = [r.diagnostics["residual"].max() for r in refits]
            residual[number, df] = max(run.fit.grad_norm, *worst)
    names = ["rebuild", "df"]
    return Rebuilds(
        pd.concat(errors, names=names),
        pd.concat(seconds, names=names),
        pd.Series(residual).rename_axis(names),
        pd.DataFrame(largest).T.rename_axis("rebuild"),
    )


def rebuilt_models(data, df, n_clusters, n_rebuilds, rng, **settings):
    """Yield the model of the training genes of each rebuild."""
    for _ in range(n_rebuilds):
        expression = data.replicates(rng)[data.train]
        yield clustering(expression, data.hours, df, n_clusters, **settings)


def balanced(size, number):
    """Combinations that are shifts of one another round the first times: each of these is left out
    equally often. Another of the classes of all combinations for each number.
    """
    every = left_out(size)
    shifts = [np.sort((every + step) % N_EARLY, axis=1) for step in range(N_EARLY)]
    first = np.min([shift @ N_EARLY ** np.arange(size)[::-1] for shift in shifts], axis=0)
    classes = np.unique(first)
    return every[first == classes[number % len(classes)]]


def cold_folds(number, stride=20):
    """Folds by how many times they leave out: all single times, and one in `stride` of the others,
    such that `stride` rebuilds in a row take each fold once.
    """
    return {k: left_out(k) if k == 1 else left_out(k)[number % stride :: stride] for k in SIZES}


def chosen(errors):
    """The df with the least error, a column an estimate, of errors by (..., df, left_out)."""
    others = [name for name in errors.index.names if name != "df"]
    place = errors.index.names.index("df")
    return errors.groupby(level=others).agg(lambda column: column.idxmin()[place])


def nearness(errors):
    """What Figure 3 says of its cells, by rebuild: a DataFrame of one number a column.

    gap: the IJ's distance from exact CV over that of exact CV from the test error, worst cell;
    below_exact: share of cells in which the IJ is below exact CV; better: in which it is nearer to
    the test error than exact CV; to_test: its mean distance from the test error over that of the
    training error; in_se: its mean distance from exact CV in standard deviations of that over
    rebuilds. Columns `none_...`: the same of the training error in place of the IJ.
    """
    gaps, exact = {"": errors.ij, "none_": errors.train}, abs(errors.exact - errors.test)
    idle = abs(errors.train - errors.test).groupby(level="rebuild").mean()
    error = errors.exact.groupby(level=["df", "left_out"]).transform("std")
    tables = []
    for prefix, estimate in gaps.items():
        to_test = abs(estimate - errors.test)
        cells = pd.DataFrame(
            {
                "below_exact": 1.0 * (estimate < errors.exact),
                "better": 1.0 * (to_test < exact),
                "in_se": abs(estimate - errors.exact) / error,
                "to_test": to_test,
            }
        )
        rows = cells.groupby(level="rebuild").mean()
        rows["gap"] = (abs(estimate - errors.exact) / exact).groupby(level="rebuild").max()
        rows["to_test"] /= idle
        tables.append(rows.add_prefix(prefix))
    return pd.concat(tables, axis=1)


def levels(errors, published, ours, theirs):
    """By rebuild, the ratio of an estimate to the authors' that is furthest from 1 over all cells.

    published: their means by (df, left_out). `ours` and `theirs` name the columns.
    """
    ratios = errors[ours].unstack("rebuild").div(published[theirs], axis=0)
    return ratios.apply(furthest_from_one)


def difference_correlations(errors, published, ours, theirs):
    """By rebuild, the correlation over cells of what both estimates add to the training error."""
    added = (errors[ours] - errors.train).unstack("rebuild")
    return added.corrwith(published[theirs] - published.train)


def block_solves(model, fit, folds):
    """How often the blocks of H are factorised in an IJ of these folds: calls of its solver."""
    calls = []
    solve = TwoStageJacobian.solve

    def counted(self, columns):
        calls.append(columns.shape)
        return solve(self, columns)

    TwoStageJacobian.solve = counted
    try:
        acv.infinitesimal_jackknife(fit, folds)
    finally:
        TwoStageJacobian.solve = solve
    return len(calls)


def every_fold():
    """The 63 folds of Figure 3, a list."""
    return [fold for size in SIZES for fold in left_out(size)]


def by_bfgs(model, start, weights, tolerance=1e-6):
    """Params (D,) where SciPy's BFGS ends the clustering from `start`, and |gradient| a gene there.

    The objective is that of one gene and the tolerance the authors'.
    """
    positions = model.stage_two.positions(model.stage_one.solve(weights))
    genes, n_genes = model.stage_one.pack(model.stage_one.solve(weights)), len(model.expression)
    found = optimize.minimize(
        lambda clusters: model.stage_two.objective(clusters, positions) / n_genes,
        model.split(start)[1],
        jac=lambda clusters: model.stage_two.gradient(clusters, positions) / n_genes,
        method="BFGS",
        options={"gtol": tolerance, "norm": 2.0},
    )
    return np.concatenate([genes.ravel(), found.x]), float(np.linalg.norm(found.jac))


def with_bfgs(model, rng, folds):
    """The IJ beside refits, both by BFGS and both by our solver: a dict.

    bfgs_gradient, newton_gradient: |gradient| a gene at the full fit; bfgs, newton: mean distance
    of the IJ's fold losses from the refits'; bfgs_none, newton_none: the same without adjustment.
    """
    start, ones = model.initial_params(rng), np.ones(model.n_sites)
    ends = {"newton": model.solve(start, ones).params, "bfgs": by_bfgs(model, start, ones)[0]}
    found = {}
    for name, params in ends.items():
        fit = acv.fit_at(model, params)
        with warnings.catch_warnings(action="ignore", category=UnconvergedFit):
            rungs = [acv.infinitesimal_jackknife, acv.no_adjustment]
            results = [rung(fit, folds) for rung in rungs]
        refits = [_refit(model, params, fold, name) for fold in folds]
        losses = [model.heldout_loss(p, fold).mean() for p, fold in zip(refits, folds, strict=True)]
        gaps = [np.abs(result.fold_losses - losses).mean() for result in results]
        clusters = model.residual(params, ones)[-len(model.split(params)[1]) :]
        found |= {name: gaps[0], f"{name}_none": gaps[1]}
        found[f"{name}_gradient"] = np.linalg.norm(clusters) / len(model.expression)
    return found


def _refit(model, params, fold, name):
    weights = acv.folds.weights(model.n_sites, fold)
    if name == "bfgs":
        return by_bfgs(model, params, weights)[0]
    return model.solve(params, weights).params


def furthest_from_one(ratios):
    """The entry of a table that is furthest from 1."""
    values = np.asarray(ratios, float).ravel()
    return float(values[abs(values - 1.0).argmax()])
