"""Which of several candidate models predicts best: fits, approximate cross-validation, a table."""

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ..check import refit_unreliable
from ..checks import NotFinite, check_kind, warn
from ..compare import compare_models, data_difference, of_counts, sample_weights
from ..declared import OneOf, Rng, Whole, declared
from ..derivatives import derivatives_of
from ..fit import UnrepeatedOptimum
from ..folds import Folds
from ..folds.sites import Known
from ..methods import ladder
from ..methods.exact import exact
from ..methods.ladder import IndefiniteFold
from ..model import ModelDefaults, check_is_model, with_defaults
from ..results import CVResult
from ..trials import UnconvergedFit, attempt_each, reasons
from .from_scratch import MOST_STARTS, Restarts, fit_restarts, from_scratch

METHODS = {**ladder.METHODS, "from_scratch": from_scratch}
del METHODS["no_adjustment"]


@dataclass(frozen=True, eq=False)
class Choice:
    """What `choose` found.

    best: the model of highest elpd; simplest: the one with fewest parameters among those whose
    elpd_diff is at most dse; table: that of `compare_models` with n_params, aic and bic (the prior
    of an HMM or of `PoissonTraffic` left out, nan under a ridge; n counts frames of an HMM, else
    sites), starts, how many of them ended at the fit's objective, and failed, how many could not be
    fitted; restarts, results: by name; rejected: (name, why it cannot be evaluated) of the
    candidates that are not there.
    """

    best: str
    simplest: str
    table: Any = field(repr=False)
    restarts: dict[str, Restarts] = field(repr=False)
    results: dict[str, CVResult] = field(repr=False)
    rejected: tuple[tuple[str, str], ...] = ()

    def plot(self, ax: Any) -> Any:
        """Draw the candidates into axes of matplotlib, by `plot_models`."""
        return plot_models(ax, self)

    def __str__(self):
        columns = ["elpd", "elpd_diff", "dse", "n_params", "starts", "failed"]
        chosen = f"best: {self.best}; simplest within one standard error: {self.simplest}"
        failed = f"\nrejected: {reasons(self.rejected)}" if self.rejected else ""
        return f"{self.table[columns].round(2).to_string()}\n{chosen}{failed}"


@declared
def choose(
    models: Mapping[str, Any] | Sequence[Any],
    folds: Folds,
    method: Annotated[str, OneOf(*METHODS)] | None = None,
    n_starts: Annotated[int, Whole(1, MOST_STARTS)] = 10,
    rng: Rng = 0,
) -> Choice:
    """Fit each model, cross-validate it, and compare all on the same folds.

    Parameters
    ----------
    models: candidates for the same data, by name or numbered from "0"
    method: "from_scratch" or "exact"; or "newton_step", "frozen_newton" or
        "infinitesimal_jackknife", of which unreliable folds are refitted. By default of a convex
        model "newton_step", of any other "from_scratch".
    n_starts: of each fit, and of each fold from scratch; one serves a convex model. An `HMM` runs
        EM from each.

    Names of hidden states do not matter: held-out losses are the same under any permutation. Local
    optima do. All methods but from_scratch keep the optimum of the full fit in each fold, where a
    refit without its sites may never get: they choose too many hidden states. One start alone that
    reached a fit is warned of by `UnrepeatedOptimum`: raise n_starts. One standard error is `dse`
    of `compare_models`: where a candidate is matrix-free or at an indefinite Hessian it is that of
    pairs of losses alone, too small where models are close. A candidate is rejected, and warned of
    by `UnconvergedFit`, if its fit or a fold is singular, has no finite optimum or does not
    converge, or if its loss is not finite.

    Raises
    ------
    AllFailed : all candidates are rejected
    ValueError : no models, or models of different data; folds of which there are not two
    TypeError : an estimating equation, whose objective cannot tell optima apart; without a method,
        a model that is not convex and has no sample weights, such as an adapted one: pass "exact"

    Source: one standard error, Breiman et al. (1984).
    """
    models = _named(models)
    first = next(iter(models.values()))
    folds = Folds.of(folds, first)
    if len(folds) < 2:
        raise ValueError("one fold: differences between models have no standard error; give more")

    def evaluated(model: Any, generator: np.random.Generator):
        restarts = fit_restarts(model, n_starts, generator)
        result = _scored(restarts.fit, folds, method, n_starts, generator)
        if not np.isfinite(result.loss):
            lost = np.flatnonzero(~np.isfinite(result.fold_totals))
            named = ", ".join(map(folds.name, lost))
            raise NotFinite(f"the held-out loss is {result.loss}, of {named}")
        return restarts, result

    seed = np.random.default_rng(rng).integers(2**62)  # of each: their order means nothing
    tasks = [(name, model, np.random.default_rng(seed)) for name, model in models.items()]
    done, rejected = attempt_each("candidate", evaluated, tasks, "See where: acv.fit(model)")
    restarts, results = ({name: pair[i] for name, pair in done.items()} for i in range(2))
    return _choice(restarts, results, rejected)


def _scored(fit, folds, method, n_starts, rng):
    if method is None:
        method = "newton_step" if with_defaults(fit.model).convex else "from_scratch"
    if method == "from_scratch":
        return from_scratch(fit, folds, n_starts, rng)
    if method == "exact":
        return exact(fit, folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndefiniteFold)  # such folds are refitted
        result = METHODS[method](fit, folds)
    return refit_unreliable(result)


def _choice(restarts, results, rejected):
    table = compare_models(results)
    fitted = [restarts[name] for name in table.index]
    table["n_params"] = [len(each.fit.params) for each in fitted]
    doubled = np.array([2.0 * _minus_log_likelihood(each.fit) for each in fitted])
    table["aic"] = doubled + 2.0 * table.n_params
    table["bic"] = doubled + np.log([_size(each.fit.model) for each in fitted]) * table.n_params
    table["starts"] = [f"{each.agreeing} of {len(each.objectives)}" for each in fitted]
    table["failed"] = [len(each.rejected) for each in fitted]
    unsure = [name for name in results if restarts[name].unrepeated]
    if unsure:
        names = ", ".join(map(str, unsure))
        message = f"one start alone reached the fit of {names}: raise n_starts"
        warn(message, UnrepeatedOptimum)
    if rejected:
        message = f"choose: rejected candidates: {reasons(rejected)}"
        warn(message, UnconvergedFit)
    close = table[(table.elpd_diff <= table.dse) | (table["rank"] == 0)]
    return Choice(table.index[0], close.n_params.idxmin(), table, restarts, results, rejected)


def _minus_log_likelihood(fit):
    """F without the prior; nan where that is a ridge: AIC and BIC are of maximum likelihood."""
    model = fit.model
    is_ours = isinstance(model, ModelDefaults)
    if is_ours and hasattr(model, "log_prior"):
        return fit.objective + float(model.log_prior(fit.params))
    if is_ours and hasattr(model, "log_partition"):  # of a field, which F leaves out
        return fit.objective + model.log_partition()
    ridge = fit.derivatives.prior_gradients(fit.params[None])
    if ridge is None:
        with np.errstate(all="ignore"):  # a mean over sites, without any, is nan: no likelihood
            _, ridge = fit.derivatives.value_and_gradient(fit.params, np.zeros(model.n_sites))
    _, shift, is_density = of_counts(model)
    is_plain = is_density and not (np.any(ridge) or getattr(model, "site_penalty", 0.0))
    return fit.objective + np.sum(shift) if is_plain else np.nan


def _size(model):
    """What n of BIC counts: sites, or frames, that are not missing, as often as they weigh."""
    weights = sample_weights(model)
    frames = getattr(model, "frames", None)
    if not hasattr(frames, "seen"):
        return weights @ Known.of(model).observed
    each = np.repeat(weights, np.diff(frames.starts)) if model.sites == "sequences" else weights
    return each @ frames.observed


def _named(models):
    """The candidates by name; ValueError unless they are of the same sites and outcomes."""
    listed = isinstance(models, Sequence) and not isinstance(models, str)
    named = {str(number): model for number, model in enumerate(models)} if listed else models
    if not isinstance(named, Mapping) or not len(named):
        raise ValueError(f"give candidate models, {{name: model}} or a list, not {models!r:.60}")
    names = list(named)
    for name in names:
        check_is_model(named[name])
        if derivatives_of(named[name]).is_equation:
            raise TypeError(f"{name}: an EstimatingEquation has no objective to compare optima by")
        reason = data_difference(named[names[0]], named[name])
        if reason:
            raise ValueError(f"{names[0]} and {name} have different data: {reason}")
    return named


def plot_models(ax: Any, models: Any) -> Any:
    """Plot the held-out loss of each model with standard errors, the best on top.

    models: what `choose` returns, results by name, or a table of `compare_models`, whose order
    stays. Thin bars are se, of the loss; thick ones dse, of its difference from the best, by which
    to decide. The mark of a model with unreliable folds is hollow; below its name stand how many
    they are, whether it is the simplest within one standard error, was rejected or has no loss.
    Losses are sums over sites, -elpd; where a model has none, differences from the best.

    Raises ValueError: results of different folds or data, or none with a loss.
    """
    table, others, notes = _compared(models)
    columns = ("elpd", "elpd_diff", "se", "dse")
    elpd, gap, se, dse = (table[name].to_numpy(float) for name in columns)
    is_density = np.isfinite(elpd).all()
    losses = -elpd if is_density else gap
    rows = np.arange(len(table))
    ax.errorbar(losses, rows, xerr=se, fmt="none", ecolor="#999999", label="se")
    thick = {"ecolor": "black", "elinewidth": 3, "label": "dse, from the best"}
    ax.errorbar(losses, rows, xerr=dse, fmt="none", **thick)
    for row, name in enumerate(table.index):
        is_sure = not any("unreliable" in note for note in notes[name])
        ax.plot(losses[row], row, "o", color="black", fillstyle="full" if is_sure else "none")
    ax.axvline((losses - gap)[0], ls=":", lw=1, color="black")
    names = ["\n".join([str(name), *notes[name]]) for name in [*table.index, *others]]
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("held-out loss" if is_density else "held-out loss above that of the best")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)
    return ax


def _compared(models):
    """(table of `compare_models`, names of models that are not in it, {name: what to say})."""
    notes = defaultdict(list)
    if hasattr(models, "elpd_diff"):
        table, results, lost = models, {}, []
    else:
        results = getattr(models, "results", models)
        lost = _lost(results)
        table = getattr(models, "table", None)
        rated = {name: result for name, result in results.items() if name not in lost}
        if table is None and rated:
            table = compare_models(rated)
    if table is None or not len(table):
        raise ValueError(f"no model has a finite loss, of {lost}: there is nothing to draw")
    for name in lost:
        notes[name].append("no loss")
    for name, result in results.items():
        if result._is_unreliable.any():
            unreliable = result._is_unreliable
            notes[name].append(f"{unreliable.sum()} of {len(unreliable)} folds unreliable")
    if hasattr(models, "simplest"):
        notes[models.simplest].append("simplest within one standard error")
    for name, _ in getattr(models, "rejected", ()):
        notes[name].append("rejected")
        lost.append(name)
    return table, lost, notes


def _lost(results):
    """The names of results whose loss is not finite; raises unless all can be compared."""
    remedy = ": give what choose or compare_models returns, or {name: CVResult}"
    check_kind("models", results, Mapping, remedy)
    first = next(iter(results), None)
    for name, result in results.items():
        check_kind(f"the result of {name}", result, CVResult, remedy)
        reason = data_difference(results[first].fit.model, result.fit.model)
        if not results[first].folds.same_as(result.folds):
            reason = "their folds differ: run both on the same Folds"
        if reason:
            raise ValueError(f"{first} and {name} cannot be compared: {reason}")
    return [name for name, result in results.items() if not np.isfinite(result.loss)]
