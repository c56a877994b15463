"""Figures 2 and 5 of Ghosh et al. (2020): a CRF layer trained epoch by epoch,
and approximate CV at its iterates.
"""

import time
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd

from acvlib.fit import UnconvergedFit, fit, fit_at
from acvlib.methods.exact import exact
from acvlib.methods.frozen_newton import frozen_newton
from acvlib.methods.jackknife import infinitesimal_jackknife
from acvlib.methods.ladder import no_adjustment
from acvlib.methods.newton_step import newton_step
from acvlib.models import LinearChainCRF
from acvlib.parallel import track
from acvlib.protocol import CVResult, Fit

RUNGS = (no_adjustment, infinitesimal_jackknife, frozen_newton)
ALL_RUNGS = (*RUNGS, newton_step)
DECAY, EPSILON = (0.9, 0.999), 1e-8  # Adam's own defaults


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
    alone = np.zeros(model.n_sites)
    alone[sentences] = 1.0
    _, gradient = model.derivatives.value_and_gradient(params, alone)
    return gradient - model.ridge * params


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
    here = fit_at(model, params)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*the point is not an optimum", UnconvergedFit)
        return here, {rung.__name__: rung(model, here, folds) for rung in rungs}


def ladder_at(model, params, folds):
    """`at_iterate` with exact refits as well, continued from these params."""
    return at_iterate(model, params, folds, (*RUNGS, exact))


def probabilities(result):
    """p(z_n | x_n) of the left-out sentences, (n_folds,)."""
    return np.exp(-np.concatenate(result.losses))


def errors(here, results, reference, full):
    """One row a rung: errors of held-out probabilities and of parameters against the exact
    `reference`.

    correlation, mean_error, max_error: of p(z_n | x_n); loss_error: mean |loss - exact loss|;
    theta_error: median distance in standard errors of the optimum `full`; grad_norm: at the
    iterate.
    """
    exact_p, rows = probabilities(reference), {}
    for name, result in results.items():
        gap = np.abs(probabilities(result) - exact_p)
        rows[name] = {
            "correlation": np.corrcoef(exact_p, probabilities(result))[0, 1],
            "mean_error": gap.mean(),
            "max_error": gap.max(),
            "loss_error": np.abs(result.fold_totals - reference.fold_totals).mean(),
            "theta_error": np.median(full.standard_errors_between(result.params, reference.params)),
            "grad_norm": here.grad_norm,
        }
    return pd.DataFrame(rows).T.rename_axis("rung")


def error_path(model, iterates, epochs, folds, reference, full):
    """`errors` at each of the epochs, a DataFrame indexed by epoch and rung."""
    tables = {
        epoch: errors(*at_iterate(model, iterates[epoch], folds), reference, full)
        for epoch in track(epochs, "CV")
    }
    return pd.concat(tables, names=["epoch"])


def decay(path, rung="infinitesimal_jackknife", column="mean_error"):
    """(slope of log error on log gradient norm, their rank correlation) over the epochs of an
    `error_path`.
    """
    from scipy.stats import spearmanr

    rows = path.xs(rung, level="rung")
    slope = np.polyfit(np.log(rows.grad_norm), np.log(rows[column]), 1)[0]
    return float(slope), float(spearmanr(rows.grad_norm, rows[column]).statistic)


class LayerStudy(NamedTuple):
    """What `layer_study` returns. model; full: the `Fit` at the optimum; iterates and their
    seconds; folds; reference: exact CV from the optimum; ladders: by epoch, (Fit there, results by
    rung, exact among them); table: `errors` by epoch and rung; seconds: of everything, the optimum
    included.
    """

    model: LinearChainCRF
    full: Fit
    iterates: np.ndarray
    iterate_seconds: np.ndarray
    folds: np.ndarray
    reference: CVResult
    ladders: dict
    table: pd.DataFrame
    seconds: float

    @property
    def unconverged(self):
        """How many exact refits did not reach the tolerance."""
        return int(sum((~result.diagnostics["converged"]).sum() for result in self._refits()))

    @property
    def disagreement(self):
        """The largest distance, in standard errors,
        between refits of one fold continued from different params.
        """
        between = self.full.standard_errors_between
        return float(
            max(between(other.params, self.reference.params).max() for other in self._refits())
        )

    def _refits(self):
        return [self.reference, *(results["exact"] for _, results in self.ladders.values())]


def layer_study(emissions, n_folds, epochs, rng, ridge=1e-5):
    """The CRF layer of `neural.Emissions` trained alone from the network's own,
    and CV of n_folds sentences.

    epochs: after which IJ, frozen and exact CV are taken, the last one being where training ends.
    """
    started = time.perf_counter()
    model = LinearChainCRF(emissions.scores["train"], emissions.tags["train"], ridge)
    iterates, seconds = adam_epochs(model, emissions.crf, max(epochs), rng)
    folds = np.sort(rng.choice(model.n_sites, n_folds, replace=False))[:, None]
    full = fit(model, iterates[-1])
    reference = exact(model, full, folds)
    ladders = {
        epoch: ladder_at(model, iterates[epoch], folds) for epoch in track(epochs, "exact CV")
    }
    table = pd.concat(
        {epoch: errors(*at, reference, full) for epoch, at in ladders.items()}, names=["epoch"]
    )
    total = time.perf_counter() - started
    return LayerStudy(model, full, iterates, seconds, folds, reference, ladders, table, total)


def progress(study):
    """Objective above the optimum's, gradient norm, and distances to the optimum, by epoch."""
    rows = {}
    for epoch, (here, results) in study.ladders.items():
        rows[epoch] = {
            "objective": here.objective - study.full.objective,
            "gradient norm": here.grad_norm,
            "distance": study.full.standard_errors_between(here.params, study.full.params),
            "Euclidean": np.linalg.norm(here.params - study.full.params),
            "Newton steps of exact": results["exact"].diagnostics["steps"].max(),
        }
    return pd.DataFrame(rows).T.rename_axis("epoch")


def own_slopes(model, folds):
    """The gradients of the folds' losses at each fold's params (n_folds, D),
    as a function of these.
    """
    return lambda params: np.array(
        [_own_gradient(model, p, fold) for p, fold in zip(params, folds, strict=True)]
    )


def hessian_in_gradients(model, params, repeats=3):
    """Median seconds of H over median seconds of a gradient."""
    weights = np.ones(model.n_sites)
    functions = (
        lambda: model.derivatives.hessian(params, weights),
        lambda: model.derivatives.value_and_gradient(params, weights),
    )
    medians = [np.median([_seconds(function) for _ in range(repeats)]) for function in functions]
    return float(medians[0] / medians[1])


def _seconds(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
