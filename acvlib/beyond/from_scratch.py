"""theta_o = argmin F(theta, w_o) from starts of its own: what refitting without the fold would get.

Where F has one optimum that is `exact`. Where it has several, `exact` keeps that of the full fit,
which was found with the sites that the fold leaves out. Of surplus hidden states it may suit just
these sites; then held-out losses are too low, and too many states seem to predict better.
"""

import warnings
from dataclasses import is_dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..checks import NotFinite, in_order_of, index_of, one_line, warn
from ..declared import Rng, Whole, declared
from ..derivatives import Derivatives, derivatives_of
from ..fit import SAME
from ..fit import fit as fit_model
from ..folds import Folds
from ..folds import weights as fold_weights
from ..methods.exact import exact
from ..model import Refits, with_defaults
from ..parallel import track
from ..results import AFit, CVResult, Fit, Run
from ..trials import AllFailed, UnconvergedFit, attempt_each, reasons
from ..weighting import LookedBackAt

MOST_STARTS = 10_000
ROUNDING = 1e-6  # of a gradient's length
INSTEAD = 'use acv.exact, or choose(..., method="exact")'


class Restarts(NamedTuple):
    """fit: the lowest of all starts; objectives (n_starts,): where each ended.

    rejected: (number, why) of the starts that failed, whose objective counts as infinite.
    """

    fit: Fit
    objectives: np.ndarray
    rejected: tuple[tuple[int, str], ...] = ()

    def __repr__(self):
        return one_line(self)

    @property
    def agreeing(self) -> int:
        """How many starts ended as low as the fit, to `SAME` nats; so do permuted states."""
        return int(np.sum(self.objectives <= self.fit.objective + SAME))

    @property
    def unrepeated(self) -> bool:
        """Whether one of several starts alone ended there."""
        return self.agreeing == 1 < len(self.objectives)


def fit_restarts(model: Any, n_starts: int, rng: np.random.Generator) -> Restarts:
    """Fit from the model's `restart_points`, or its `initial_params` anew each time.

    A start is rejected if its fit fails, does not converge, or has no finite objective; `AllFailed`
    is raised where all are.
    """
    known = with_defaults(model)
    n_starts = 1 if known.convex else n_starts
    try:
        if known.restart_points is None:
            starts = [model.initial_params(rng) for _ in range(n_starts)]
        else:
            starts = known.restart_points(rng, n_starts)
    except ValueError as error:  # such as fewer distinct rows than states without a fold
        raise AllFailed(f"no start can be made: {error}") from error

    def fit_from(start: np.ndarray):
        found = fit_model(model, start)
        if not np.isfinite(found.objective):
            raise NotFinite(f"the objective is {found.objective}")
        return found

    fits, rejected = attempt_each("start", fit_from, enumerate(starts), "Raise n_starts")
    objectives = [fits[n].objective if n in fits else np.inf for n in range(n_starts)]
    return Restarts(fits[int(np.argmin(objectives))], np.array(objectives), rejected)


@declared
def from_scratch(
    fit: AFit,
    folds: Folds,
    n_starts: Annotated[int, Whole(1, MOST_STARTS)] = 10,
    rng: Rng = 0,
) -> CVResult:
    """Refit each fold from starts that have not seen its sites, and keep the lowest optimum.

    A fold's sites are left out by sample weights of 0, of which a model's `restart_points` or
    `initial_params` must make nothing. The fit is what the result is compared with; no refit
    starts there. A convex model has one optimum, and the result is that of `exact`. A fold all of
    whose starts fail or do not converge has nan params and losses, and is warned of by
    `UnconvergedFit`.

    diagnostics: decrement, converged; agreeing, how many starts ended as low as the lowest;
    rejected, which starts failed, and why.

    Raises
    ------
    AllFailed : no fold has a start that converges
    TypeError : a model that is not convex and has no `sample_weight`
    ValueError : one whose sample weight 0 is not weight 0
    """
    model = fit.model
    if with_defaults(model).convex:
        return replace(exact(fit, folds), method="from_scratch")
    if not (is_dataclass(model) and hasattr(model, "sample_weight")):
        lacks = f"{type(model).__name__} is no dataclass with a sample_weight"
        raise TypeError(f"{lacks} to leave sites out by: {INSTEAD}")
    run = Run("from_scratch", fit, folds)
    found = Refits.unfinished(len(run.folds), len(fit.params))
    agreeing = np.zeros(len(run.folds), int)
    rejected = np.full(len(run.folds), "", object)

    seed = int(np.random.default_rng(rng).integers(2**31))

    def refit(n, fold):
        of_sites = np.random.default_rng([seed, *fold])  # the same wherever the fold stands
        restarts = fit_restarts(_without(run.derivatives, fold, fit.params), n_starts, of_sites)
        found.evaluations["fits"] += n_starts
        agreeing[n] = restarts.agreeing
        rejected[n] = reasons(restarts.rejected)
        found.params[n] = restarts.fit.params
        found.decrement[n] = restarts.fit.newton_decrement
        found.converged[n] = True

    tasks = ((n, n, fold) for n, fold in enumerate(track(run.folds, "folds")))
    _, lost = attempt_each("fold", refit, tasks, INSTEAD)
    if lost:
        found.evaluations["fits"] += n_starts * len(lost)
        rejected[[n for n, _ in lost]] = [reason for _, reason in lost]
        message = f"from_scratch: the losses of {len(lost)} of {len(run.folds)} folds are nan"
        warn(f"{message}. {reasons(lost)}", UnconvergedFit)
    run.lost = dict(lost)
    return run.finish(
        found.params,
        found.evaluations,
        decrement=found.decrement,
        converged=found.converged,
        agreeing=agreeing,
        rejected=rejected,
    )


def _without(derivatives: Derivatives, fold: np.ndarray, params: np.ndarray) -> Any:
    """The model with sample weight 0 at a fold's sites: F(theta, w_o), as a gradient shows."""
    model = derivatives.model
    weights = fold_weights(derivatives.n_sites, fold)
    counts = in_order_of(index_of(model), "sample_weight", model.sample_weight)
    left = weights if counts is None else weights * counts
    try:
        with warnings.catch_warnings(action="ignore", category=LookedBackAt):  # as in all folds
            kept = replace(model, sample_weight=left)
    except ValueError as error:  # such as a channel that is missing in all other sequences
        raise AllFailed(f"no model is left: {error}") from error
    aside = params + 0.1 * np.cos(np.arange(len(params)))  # where states are not alike
    _, expected = derivatives.value_and_gradient(aside, weights)
    _, found = derivatives_of(kept).value_and_gradient(aside, np.ones(len(weights)))
    if np.linalg.norm(found - expected) > ROUNDING * (1.0 + np.linalg.norm(expected)):
        raise ValueError(
            f"sample_weight 0 does not leave out a site of this {type(model).__name__}, whose "
            f"scheme weighs more than observations: {INSTEAD}"
        )
    return kept
