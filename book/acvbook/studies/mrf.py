"""Cross-validation of hidden fields on a map: Figure 3 of Ghosh et al. (2020)."""

from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.models import EmptyState, HiddenMRF
from acvlib.results import Run
from acvlib.weighting import drop_latents

from .ladders import against_exact, seconds

RUNGS = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.frozen_newton)
RUNGS += (acv.newton_step, acv.exact)


AUTHORS_TOLERANCE, AUTHORS_STEPS = 1e-8, 100  # of EM in the authors' program
TOLERANCE, STEPS = 1e-9, 2000  # of EM here: about 1e-7 standard errors from the optimum


class EMFit(NamedTuple):
    """Log rates (K,), ascending; steps taken; whether the last one was small enough."""

    params: np.ndarray
    steps: int
    converged: bool


def em(model: HiddenMRF, weights=None, start=None) -> EMFit:
    """Minimise F(params, weights) by EM, the way the paper fits it (Appendix L.3).

    States are sorted at the end: a cold start may end at any labelling.
    """
    weights = np.ones(model.n_sites) if weights is None else weights
    params = model.initial_params() if start is None else start
    change, steps = np.inf, 0
    while change > TOLERANCE and steps < STEPS:
        before, params = params, maximise(model, params, weights)
        change = np.abs(params - before).max()
        steps += 1
    return EMFit(np.sort(params), steps, bool(change <= TOLERANCE))


def maximise(model: HiddenMRF, params, weights):
    """The log rates (K,) after an E-step by elimination and an M-step: means of weighted counts."""
    gamma, _ = model.posterior(params, weights).marginals()
    kept = model.factors(weights).observation[:, None] * gamma
    counts, exposure = kept.T @ model.counts, kept.T @ model.exposure
    if not (counts.min() > 0.0 and exposure.min() > 0.0):
        raise EmptyState(f"the states hold {exposure} of the exposure with {counts} counts")
    return np.log(counts / exposure)


class Field(NamedTuple):
    """One coupling: the model, its fit by gradients, and every rung on the same folds, by name."""

    model: HiddenMRF
    fit: acv.Fit
    results: dict[str, acv.CVResult]


def hidden_field(data, beta, scheme=drop_latents, n_states=2):
    """The model at the paper's coupling: its sum visits each edge twice, which has 2 beta."""
    return HiddenMRF(data.counts, data.edges, 2.0 * beta, n_states, scheme)


def every_rung(data, beta, folds, rungs=RUNGS, scheme=drop_latents):
    """A `Field`: the fit and the rungs at one coupling."""
    model = hidden_field(data, beta, scheme)
    fit = acv.fit(model)
    return Field(model, fit, {rung.__name__: rung(fit, folds) for rung in rungs})


def random_start(model, rng):
    """Log rates (K,), ascending, of rates drawn evenly from the range of the counts."""
    low, high = model.counts.min() + 0.5, model.counts.max()
    return np.sort(np.log(rng.uniform(low, high, model.n_states)))


def em_starts(fields, n_starts, rng):
    """EM and a gradient fit from the same random starts: one row a coupling and start.

    gap: the largest distance between the log rates of the two; nats_above: by how much the
    objective where EM ends is above that of the field's own fit, the best optimum known.
    """
    rows = {}
    for beta, (model, fit, _) in fields.items():
        for number in range(n_starts):
            start = random_start(model, rng)
            by_em, by_gradient = em(model, start=start).params, acv.fit(model, start).params
            above = model.objective(by_em, np.ones(model.n_sites)) - fit.objective
            gap = np.abs(by_em - np.sort(by_gradient)).max()
            rows[beta, number] = {"gap": gap, "nats_above": above}
    return pd.DataFrame(rows).T.rename_axis(["beta", "start"])


def cold_em(model, fit, folds, start=None):
    """Exact CV by EM from scratch: from `start` in each fold. A `CVResult` as from any rung."""
    run = Run("cold_em", fit, folds)
    refits = [em(model, acv.folds.weights(model.n_sites, fold), start) for fold in run.folds]
    steps = sum(refit.steps for refit in refits)
    converged = np.array([refit.converged for refit in refits])
    return run.finish(
        np.array([refit.params for refit in refits]), {"em_step": steps}, converged=converged
    )


def authors_em(model, fit, folds):
    """Exact CV as the authors' program does it: EM from the full fit, until the log-likelihood
    changes by less than 1e-8 of itself, with a sum over the map for each tract's class.
    """
    run = Run("authors_em", fit, folds)
    found = [_authors_refit(model, fit.params, fold) for fold in run.folds]
    params, steps = (np.array(part) for part in zip(*found, strict=True))
    return run.finish(params, {"em_step": steps.sum()}, steps=steps)


def _authors_refit(model, params, fold):
    """(log rates, EM steps) of one fold."""
    weights = acv.folds.weights(model.n_sites, fold)
    normaliser = model.log_partition(weights)
    before = -model.objective(params, weights) - normaliser
    change, steps = np.inf, 0
    while change >= AUTHORS_TOLERANCE * abs(before) and steps <= AUTHORS_STEPS:
        params = maximise_by_tract(model, params, weights)
        after = -model.objective(params, weights) - normaliser
        change, before = abs(after - before), after
        steps += 1
    return params, steps


def maximise_by_tract(model, params, weights):
    """The log rates after one EM step, each tract's class probability by its own elimination."""
    factors = model.factors(weights)
    node, edge = model.potentials(model.log_densities(params), factors)
    sites = np.flatnonzero(factors.observation)
    gamma = [
        acv.graph.GraphPosterior(node, edge, model.elimination).marginals_at([site])[0]
        for site in sites
    ]
    weighted = factors.observation[sites, None] * np.array(gamma)
    return np.log(weighted.T @ model.counts[sites]) - np.log(weighted.sum(axis=0))


def errors(fields):
    """`ladders.against_exact` of the folds' losses, one row a coupling and rung."""
    totals = attrgetter("fold_totals")
    rows = {beta: against_exact(field.results, totals) for beta, field in fields.items()}
    return pd.concat(rows, names=["beta"]).drop("exact", level="rung")


def fold_seconds(field, n_parts, rng):
    """One row for each of `n_parts` random parts of the folds: seconds a fold of each method.

    The column no_adjustment is the scoring alone; infinitesimal_jackknife adds to it what it
    computes once (H and J H^-1 of all tracts), divided by the number of tracts. cold_em has a start
    of its own in each part, authors_em one fold of the part. log_partition: seconds of one. Also
    returns the results of cold_em and of authors_em, part by part.
    """
    rows = np.array_split(rng.permutation(len(field.results["exact"].folds)), n_parts)
    timed, cold, authors = zip(*(_part_seconds(field, part, rng) for part in rows), strict=True)
    return pd.DataFrame(timed).rename_axis("draw"), cold, authors


def _part_seconds(field, rows, rng):
    model, fit, results = field
    jackknife = results["infinitesimal_jackknife"]
    folds, derivatives = jackknife.folds[rows], acv.derivatives_of(model)
    one, everyone = np.ones(model.n_sites), acv.folds.leave_one_out(model.n_sites)
    (once,) = seconds(
        lambda: derivatives.hessian(fit.params, one).solve(
            derivatives.cross(fit.params, everyone).T
        )
    )
    (scoring,) = seconds(lambda: derivatives.heldout(jackknife.params[rows], folds))
    scoring /= len(rows)
    runs = {rung.__name__: rung(fit, folds) for rung in RUNGS[2:]}
    cold = cold_em(model, fit, folds, random_start(model, rng))
    authors = authors_em(model, fit, folds[[0]])
    by_method = {
        "no_adjustment": scoring,
        "infinitesimal_jackknife": scoring + once / model.n_sites,
        **{name: run.seconds / len(rows) for name, run in runs.items()},
        "cold_em": cold.seconds / len(rows),
        "authors_em": authors.seconds,
        "log_partition": seconds(lambda: model.objective(fit.params, one))[0],
    }
    return by_method, cold, authors


def over_acv(timed, net=False):
    """`fold_seconds` over those of the infinitesimal jackknife; net: both without the scoring."""
    timed = timed.drop(columns="log_partition")
    if net:
        timed = timed.sub(timed.no_adjustment, axis=0)
    return timed.div(timed.infinitesimal_jackknife, axis=0)


def work(timed, n_folds):
    """One row a method: median seconds for all folds, over ACV, and over it net of scoring."""
    columns = {
        "seconds": n_folds * timed.drop(columns="log_partition").median(),
        "over_acv": over_acv(timed).median(),
        "net_of_scoring": over_acv(timed, net=True).median(),
    }
    return pd.DataFrame(columns).rename_axis("method")


def choice(data, betas, folds, known=()):
    """Mean held-out loss by coupling, one column a rung: what each would choose beta by.

    `known`: fields on the same folds by coupling, which are not computed again.
    """
    rungs = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.exact)
    losses = {}
    for beta in betas:
        field = known[beta] if beta in known else every_rung(data, beta, folds, rungs)
        losses[beta] = {rung.__name__: field.results[rung.__name__].loss for rung in rungs}
    return pd.DataFrame(losses).T.rename_axis("beta")


def gaps_to(field, results):
    """Distances of the params of several results on single parts of the folds from the exact ones,
    in standard errors of the full fit, in one array.
    """
    exact = field.results["exact"]
    by_sites = {tuple(fold): params for fold, params in zip(exact.folds, exact.params, strict=True)}
    params = np.concatenate([result.params for result in results])
    sought = np.array([by_sites[tuple(fold)] for result in results for fold in result.folds])
    return field.fit.standard_errors_between(params, sought)
