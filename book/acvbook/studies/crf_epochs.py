"""Figures 2 and 5 of Ghosh et al. (2020): a CRF layer trained epoch by epoch, and CV of it."""

import time
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.models import LinearChainCRF
from acvlib.parallel import track
from acvlib.trials import UnconvergedFit

from .. import ledger
from .ladders import correlation, slope

RUNGS = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.frozen_newton)
ALL_RUNGS = (*RUNGS, acv.newton_step)
DECAY, EPSILON = (0.9, 0.999), 1e-8  # Adam's own defaults
TIGHT = 1e-9  # standard errors: an optimum whose own error is no rung's


def adam_epochs(model, start, n_epochs, rng, batch=31, learning_rate=1e-3):
    """Params (n_epochs + 1, D) after each epoch of Adam on batches of sentences,
    and seconds since the start.

    model: a `LinearChainCRF` whose sites are sentences; what is minimised is F / N, each batch with
    its share of the ridge. Source: Kingma and Ba (2015); batch size as in Ghosh et al. (2020),
    Appendix L.2.
    """
    params, moments, step = np.array(start, float), np.zeros((2, len(start))), 0
    iterates, seconds, started = [params.copy()], [0.0], time.perf_counter()
    for _ in track(range(n_epochs), "epochs"):
        order = rng.permutation(model.n_sites)
        for sentences in np.array_split(order, -(-model.n_sites // batch)):
            step += 1
            gradient = batch_gradient(model, params, sentences)
            params = params - learning_rate * _direction(moments, gradient, step)
        iterates.append(params.copy())
        seconds.append(time.perf_counter() - started)
    return np.array(iterates), np.array(seconds)


def batch_gradient(model, params, sentences):
    """An unbiased estimate of the gradient of F / N."""
    return _own_gradient(model, params, sentences) / len(sentences) + (
        model.ridge * params / model.n_sites
    )


def _own_gradient(model, params, sentences):
    """The gradient of the sentences' own losses, without the ridge."""
    return -model.derivatives.cross(params, acv.Folds([sentences]))[0]


def _direction(moments, gradient, step):
    for moment, power, decay in zip(moments, (1, 2), DECAY, strict=True):
        moment *= decay
        moment += (1 - decay) * gradient**power
    first, second = (
        moment / (1 - decay**step) for moment, decay in zip(moments, DECAY, strict=True)
    )
    return first / (np.sqrt(second) + EPSILON)


def at_iterate(model, params, folds, rungs=RUNGS):
    """`CVResult`s by rung at params that need be no optimum, and the `Fit` there. That they are
    none is the subject here, so there is no warning of it.
    """
    here = acv.fit_at(model, params)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*the point is not an optimum", UnconvergedFit)
        return here, {rung.__name__: rung(here, folds) for rung in rungs}


def probabilities(result):
    """p(z_n | x_n) of the left-out sentences, (n_folds,)."""
    return np.exp(-np.concatenate(result.losses))


def errors(here, results, reference, full, rows, fitted):
    """One row a rung: errors of held-out probabilities and of parameters against the exact
    `reference`, over the folds numbered `rows`.

    correlation, mean_error, max_error: of p(z_n | x_n); differences: correlation of the changes of
    the losses from no adjustment, nan for that itself; moves: correlation of the changes that the
    rung makes to no adjustment's probabilities here and that exact CV makes to `fitted`, theirs at
    the optimum `full`; theta_error: median distance in standard errors; in_se: how far the mean
    loss is off, in standard errors of exact CV itself; grad_norm: at the iterate.
    """
    here_p = probabilities(results["no_adjustment"])[rows]
    exact_p, nothing = probabilities(reference)[rows], results["no_adjustment"].fold_totals[rows]
    exact, table = reference.fold_totals[rows], {}
    moves, error = exact - nothing, exact.std(ddof=1) / np.sqrt(len(exact))
    for name, result in results.items():
        p, own = probabilities(result)[rows], result.fold_totals[rows] - nothing
        gap = np.abs(p - exact_p)
        distances = full.standard_errors_between(result.params[rows], reference.params[rows])
        table[name] = {
            "correlation": np.corrcoef(exact_p, p)[0, 1],
            "mean_error": gap.mean(),
            "max_error": gap.max(),
            "differences": correlation(moves, own),
            "moves": correlation(p - here_p, exact_p - fitted[rows]),
            "theta_error": np.median(distances),
            "in_se": abs((own - moves).mean()) / error,
            "grad_norm": here.grad_norm,
        }
    return pd.DataFrame(table).T.rename_axis("rung")


class LayerStudy(NamedTuple):
    """What `layer_study` returns. model; full: the `Fit` at the optimum; iterates by epoch and
    their seconds; draws: rows of `folds` of each set of sentences; reference: exact CV of all of
    them, from the optimum; fitted: p(z_n | x_n) at the optimum itself.
    """

    model: LinearChainCRF
    full: acv.Fit
    iterates: np.ndarray
    iterate_seconds: np.ndarray
    folds: np.ndarray
    draws: tuple
    reference: acv.CVResult
    fitted: np.ndarray

    @property
    def unconverged(self):
        """How many exact refits did not reach the tolerance."""
        return int((~self.reference.diagnostics["converged"]).sum())

    @property
    def set_folds(self):
        """The sentences of the first set, as folds."""
        return self.folds[self.draws[0]]


def disjoint(n_sites, n_draws, n_folds, rng):
    """n_draws sets of n_folds sites, or fewer: (folds of one site, rows of each set)."""
    n_folds = min(n_folds, n_sites // n_draws)
    sites = rng.permutation(n_sites)[: n_draws * n_folds]
    return sites[:, None], tuple(slice(i, i + n_folds) for i in range(0, len(sites), n_folds))


def layer_study(emissions, n_draws, n_folds, n_epochs, rng, ridge=1e-5, learning_rate=1e-3):
    """The CRF layer of `neural.Emissions` trained alone from the network's own, and exact CV of
    n_draws disjoint sets of n_folds sentences: a `LayerStudy`.
    """
    model = LinearChainCRF(emissions.scores["train"], emissions.tags["train"], ridge)
    iterates, seconds = adam_epochs(model, emissions.crf, n_epochs, rng, 31, learning_rate)
    folds, draws = disjoint(model.n_sites, n_draws, n_folds, rng)
    full = acv.fit(model, iterates[-1], tolerance=TIGHT)
    reference = acv.exact(full, folds)
    fitted = probabilities(acv.no_adjustment(full, folds))
    return LayerStudy(model, full, iterates, seconds, folds, draws, reference, fitted)


def by_draw(study, params, rungs=RUNGS):
    """`errors` of each set of sentences at params, a DataFrame indexed by draw and rung."""
    here, results = at_iterate(study.model, params, study.folds, rungs)
    against = study.reference, study.full
    tables = [errors(here, results, *against, rows, study.fitted) for rows in study.draws]
    return pd.concat(dict(enumerate(tables)), names=["draw"])


def error_path(study, epochs):
    """`by_draw` at each of the epochs, a DataFrame indexed by epoch, draw and rung."""
    tables = {epoch: by_draw(study, study.iterates[epoch]) for epoch in track(epochs, "CV")}
    return pd.concat(tables, names=["epoch"])


def gains(table, column="mean_error", rung="infinitesimal_jackknife"):
    """The rung's column over that of no adjustment, a value a draw; table: as of `by_draw`."""
    columns = table[column].unstack("rung")
    return (columns[rung] / columns["no_adjustment"]).to_numpy()


def record(id, table, data):
    """Record, at an iterate, the IJ's correlation of probabilities, as `.gain` their error over
    that of doing nothing, and `.in_se`, beside doing nothing itself.
    """
    ij, none = "infinitesimal_jackknife", "no_adjustment"
    names = {"correlation": ""}
    rows, idle = (table[["correlation", "in_se"]].xs(rung, level="rung") for rung in (ij, none))
    ledger.record_table(id, rows, data, idle, names)
    ledger.record_draws(f"{id}.gain", gains(table), data, baseline=gains(table, rung=none))


def decays(path, rung="infinitesimal_jackknife", column="mean_error"):
    """By draw of an `error_path`: `slope` and `rank` correlation of error on gradient norm, and the
    rank correlation of error and the `clock`, which goes on with the epochs.
    """
    from scipy.stats import spearmanr

    found = {}
    for draw, rows in path.xs(rung, level="rung").groupby("draw"):
        power = slope(rows.grad_norm, rows[column])
        epochs = rows.index.get_level_values("epoch")
        rank, clock = (spearmanr(x, rows[column]).statistic for x in (rows.grad_norm, epochs))
        found[draw] = {"slope": power, "rank": rank, "clock": clock}
    return pd.DataFrame(found).T


def entity_scores(true, predicted, names):
    """Precision, recall, F1 and number of entities by type,
    then over all entities ("micro avg"), a DataFrame.

    true, predicted: tag numbers (T_n,) of each sentence; names: the tags in IOB2. As in conlleval,
    an entity counts where its type and both its ends are right, and an I- that follows no entity of
    its type begins one.
    """
    from seqeval.metrics import classification_report

    pair = [[[names[k] for k in tags] for tags in numbers] for numbers in (true, predicted)]
    table = pd.DataFrame(classification_report(*pair, output_dict=True, zero_division=0)).T
    table = table.drop(["macro avg", "weighted avg"]).rename(
        columns={"f1-score": "F1", "support": "entities"}
    )
    return table.astype({"entities": int})


def own_slopes(model, folds):
    """The gradients of the folds' losses, a function of each fold's params (n_folds, D)."""
    return lambda params: np.array(
        [_own_gradient(model, p, fold) for p, fold in zip(params, folds, strict=True)]
    )
