"""Which of several candidate models predicts best: fits, approximate cross-validation, a table."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .checks import check_choice, check_whole, generator
from .compare import compare_models
from .derivatives import is_equation
from .fit import UnconvergedFit, fit
from .folds import Folds
from .methods import ladder
from .methods.exact import exact
from .methods.run import IndefiniteFold
from .protocol import CVResult, Fit, check_is_model, with_defaults
from .protocol.alike import data_difference
from .reliability import refit_unreliable

METHODS = {
    method.__name__: method for method in ladder.METHODS if method is not ladder.no_adjustment
}
MOST_STARTS = 10_000
SAME = 1e-4  # nats: optima closer than that in F count as one


class UnrepeatedOptimum(UserWarning):
    """One start alone ended at a fit: there may be lower optima."""


class Restarts(NamedTuple):
    """fit: the lowest of all starts; objectives (n_starts,): where each ended."""

    fit: Fit
    objectives: np.ndarray

    @property
    def agreeing(self) -> int:
        """How many starts ended as low as the fit; permuted states count as the same."""
        return int(np.sum(self.objectives <= self.fit.objective + SAME))

    @property
    def unrepeated(self) -> bool:
        """Whether one of several starts alone ended there."""
        return self.agreeing == 1 < len(self.objectives)


@dataclass(frozen=True)
class Choice:
    """What `choose` found.

    best: the model of highest elpd; simplest: the one with fewest parameters among those whose
    elpd_diff is at most dse; table: that of `compare_models` with n_params and starts, how many of
    them ended at the fit's objective; restarts, results: by name.
    """

    best: str
    simplest: str
    table: Any = field(repr=False)
    restarts: dict[str, Restarts] = field(repr=False)
    results: dict[str, CVResult] = field(repr=False)

    def __str__(self):
        columns = ["elpd", "elpd_diff", "dse", "n_params", "starts"]
        chosen = f"best: {self.best}; simplest within one standard error: {self.simplest}"
        return f"{self.table[columns].round(2).to_string()}\n{chosen}"


def choose(
    models: Mapping[str, Any] | Sequence[Any],
    folds: Folds,
    method: str = "newton_step",
    n_starts: int = 10,
    rng: np.random.Generator | int = 0,
) -> Choice:
    """Fit each model, cross-validate it, and compare all on the same folds.

    Parameters
    ----------
    models: candidates for the same data, by name or numbered from "0"
    method: "exact", or "newton_step", "frozen_newton" or "infinitesimal_jackknife", of which
        indefinite and unreliable folds are refitted
    n_starts: of each fit; one serves a convex model. An `HMM` runs EM from each.

    Names of hidden states do not matter: all folds continue from one fit, and held-out losses are
    the same under any permutation. Local optima do: a fold stays in the optimum of the full fit,
    where a refit from scratch might find a lower one; only that refit could tell. What can be told
    is that one start alone reached a fit, of which `UnrepeatedOptimum` warns: raise n_starts. One
    standard error is that of the paired difference, over folds (`compare_models`).

    Raises
    ------
    ValueError : no models, or models of different data; folds of which there are not two
    TypeError : an estimating equation, whose objective cannot tell optima apart

    Source: one standard error, Breiman et al. (1984).
    """
    models = _named(models)
    check_choice("method", method, METHODS)
    n_starts = check_whole("n_starts", n_starts, 1, MOST_STARTS)
    first = next(iter(models.values()))
    folds = Folds.of(folds, first.n_sites, with_defaults(first).observed)
    if len(folds) < 2:
        raise ValueError("one fold: differences between models have no standard error; give more")
    restarts = {}
    results = {}
    for (name, model), own in zip(models.items(), generator(rng).spawn(len(models)), strict=True):
        restarts[name] = fit_restarts(model, n_starts, own)
        results[name] = _scored(model, restarts[name].fit, folds, method)
    return _choice(restarts, results)


def _scored(model, fit, folds, method):
    if method == "exact":
        return exact(model, fit, folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndefiniteFold)  # such folds are refitted
        result = METHODS[method](model, fit, folds)
    return refit_unreliable(model, result)


def fit_restarts(model: Any, n_starts: int, rng: np.random.Generator) -> Restarts:
    """Fit from the model's `restart_points`, or its `initial_params` anew each time.

    Unconverged starts are not warned of: methods warn of a fit that is.
    """
    defaults = with_defaults(model)
    n_starts = 1 if defaults.convex else n_starts
    if defaults.restart_points is None:
        starts = [model.initial_params(rng) for _ in range(n_starts)]
    else:
        starts = defaults.restart_points(rng, n_starts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnconvergedFit)
        fits = [fit(model, start) for start in starts]
    objectives = np.array([one.objective for one in fits])
    return Restarts(fits[int(np.argmin(objectives))], objectives)


def _choice(restarts, results):
    table = compare_models(results)
    own = [restarts[name] for name in table.index]
    table["n_params"] = [len(each.fit.params) for each in own]
    table["starts"] = [f"{each.agreeing} of {len(each.objectives)}" for each in own]
    unsure = [name for name in results if restarts[name].unrepeated]
    if unsure:
        names = ", ".join(map(str, unsure))
        message = f"one start alone reached the fit of {names}: raise n_starts"
        warnings.warn(message, UnrepeatedOptimum, stacklevel=3)
    close = table[(table.elpd_diff <= table.dse) | (table["rank"] == 0)]
    return Choice(table.index[0], close.n_params.idxmin(), table, restarts, results)


def _named(models):
    """The candidates by name; ValueError unless they are of the same sites and outcomes."""
    listed = isinstance(models, Sequence) and not isinstance(models, str)
    named = {str(number): model for number, model in enumerate(models)} if listed else models
    if not isinstance(named, Mapping) or not len(named):
        raise ValueError(f"give candidate models, {{name: model}} or a list, not {models!r:.60}")
    names = list(named)
    for name in names:
        check_is_model(named[name])
        if is_equation(named[name]):
            raise TypeError(f"{name}: an EstimatingEquation has no objective to compare optima by")
        reason = data_difference(named[names[0]], named[name])
        if reason:
            raise ValueError(f"{names[0]} and {name} have different data: {reason}")
    return named
