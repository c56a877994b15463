"""Cross-validation of hidden Markov random fields on a map (Ghosh et al. 2020, Figure 3):
everything, by coupling.
"""

import time
from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib import spatial_folds
from acvlib.inference import graph
from acvlib.methods.run import Run
from acvlib.models import HiddenMRF, em
from acvlib.protocol import CVResult, Fit
from acvlib.weighting import drop_latents

RUNGS = (
    acv.no_adjustment,
    acv.infinitesimal_jackknife,
    acv.frozen_newton,
    acv.newton_step,
    acv.exact,
)


class Field(NamedTuple):
    """One coupling: the model, its fit by gradients, and every rung on the same folds, by name."""

    model: HiddenMRF
    fit: Fit
    results: dict[str, CVResult]


def hidden_field(data, beta, scheme=drop_latents, n_states=2):
    """The model of a map at the paper's coupling beta: its double sum visits each edge twice,
    so an edge has 2 beta.
    """
    return HiddenMRF(data.counts, data.edges, 2.0 * beta, n_states, scheme)


def every_rung(data, beta, folds, rungs=RUNGS, scheme=drop_latents):
    """A `Field`: the fit and the rungs at one coupling."""
    model = hidden_field(data, beta, scheme)
    fit = acv.fit(model)
    return Field(model, fit, {rung.__name__: rung(model, fit, folds) for rung in rungs})


def cold_em(model, fit, folds):
    """The paper's exact CV: EM from scratch for each fold. A `CVResult` as from any rung."""
    run = Run("cold_em", model, fit, folds)
    refits = [em(model, acv.folds.weights(model.n_sites, fold)) for fold in run.folds]
    steps = sum(refit.steps for refit in refits)
    converged = np.array([refit.converged for refit in refits])
    return run.finish(
        np.array([refit.params for refit in refits]), {"em_step": steps}, converged=converged
    )


def optima(fields):
    """One row a coupling: rates, expected tracts in the high state,
    EM's distance from the gradient fit, decrement.
    """
    return pd.DataFrame(
        {beta: _optimum(*field[:2]) for beta, field in fields.items()}
    ).T.rename_axis("beta")


def _optimum(model, fit):
    by_em, (low, high) = em(model), np.exp(fit.params)
    return {
        "low_rate": low,
        "high_rate": high,
        "high_tracts": model.posterior(fit.params).marginals()[0][:, 1].sum(),
        "em_steps": by_em.steps,
        "em_minus_gradient": np.abs(by_em.params - np.sort(fit.params)).max(),
        "em_minus_gradient_se": float(
            fit.standard_errors_between(by_em.params, np.sort(fit.params))
        ),
        "decrement": fit.newton_decrement,
    }


def errors(fields):
    """One row a coupling and rung: relative error of a fold's loss, correlation, theta error,
    all against exact.
    """
    rows = {
        (beta, name): _against(field.results["exact"], result)
        for beta, field in fields.items()
        for name, result in field.results.items()
        if name != "exact"
    }
    return pd.DataFrame(rows).T.rename_axis(["beta", "rung"])


def _against(exact, result):
    relative, theta = acv.relative_errors(exact, result), acv.theta_errors(exact, result)
    losses, exact_losses = result.fold_totals, exact.fold_totals
    mean, exact_mean = losses.mean(), exact_losses.mean()
    return {
        "loss": mean,
        "mean_loss_error": abs(mean - exact_mean) / abs(exact_mean),
        "relative_error": relative.mean(),
        "relative_error_max": relative.max(),
        "correlation": np.corrcoef(losses, exact_losses)[0, 1],
        "theta_error": np.median(theta),
        "theta_error_max": theta.max(),
    }


def log_partition_seconds(field, repeats=15):
    """Median seconds of one log-partition at the fit: the unit of the work."""
    one = np.ones(field.model.n_sites)
    return float(
        np.median([_seconds(field.model.objective, field.fit.params, one) for _ in range(repeats)])
    )


def _seconds(function, *args):
    tick = time.perf_counter()
    function(*args)
    return time.perf_counter() - tick


def work(field):
    """One row a method: seconds, in log-partition evaluations,
    over those of the infinitesimal jackknife; counts.
    """
    unit, base = log_partition_seconds(field), field.results["infinitesimal_jackknife"].seconds
    rows = {
        name: {
            "seconds": result.seconds,
            "log_partitions": result.seconds / unit,
            "over_acv": result.seconds / base,
            "counted": _counted(result.evaluations),
        }
        for name, result in field.results.items()
    }
    return pd.DataFrame(rows).T.rename_axis("method")


def _counted(evaluations):
    return ", ".join(f"{count:,} {name}" for name, count in Counter(evaluations).items())


def choice(data, betas, folds):
    """Mean held-out loss by coupling, one column a rung: what each would choose beta by."""
    rungs = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.exact)
    rows = {beta: every_rung(data, beta, folds, rungs).results for beta in betas}
    losses = {
        beta: {name: result.loss for name, result in row.items()} for beta, row in rows.items()
    }
    return pd.DataFrame(losses).T.rename_axis("beta")


def larger_folds(data, beta, n_regions, rng, radii=(1, 2), every=1):
    """Every rung where more than one tract is left out: balls around every so many tracts,
    and contiguous regions.
    """
    folds = {
        f"ball of radius {r}": spatial_folds.balls(len(data), data.edges, r)[::every] for r in radii
    }
    folds |= {f"{n_regions} regions": spatial_folds.regions(len(data), data.edges, n_regions, rng)}
    return {name: every_rung(data, beta, parts) for name, parts in folds.items()}


def buffered_loss(data, beta, radius):
    """Mean loss of the centre tracts of balls, exactly refitted:
    how well tracts farther off than that predict.
    """
    folds = spatial_folds.buffered(len(data), data.edges, radius)
    return every_rung(data, beta, folds, (acv.exact,)).results["exact"].loss


def difference_loss(field):
    """The other reading of scheme B: mean of log p(x; w_o) - log p(x; 1), normalised,
    at the exact refits.

    It scores a tract together with its place on the map.
    """
    model, exact = field.model, field.results["exact"]
    pairs = zip(exact.params, exact.folds, strict=True)
    everything = np.ones(model.n_sites)
    gaps = [
        _log_density(model, p, acv.folds.weights(model.n_sites, fold))
        - _log_density(model, p, everything)
        for p, fold in pairs
    ]
    return float(np.mean(gaps))


def _log_density(model, params, weights):
    """log p(x; params, weights), with its normaliser log Z(coupling, w)."""
    node, edge = model.potentials(model.log_densities(params), model.scheme(weights, model.edges))
    sums = (
        graph.log_partition(potential, edge, model.elimination) for potential in (node, 0.0 * node)
    )
    return next(sums) - next(sums)
