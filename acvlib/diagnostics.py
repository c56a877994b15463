"""Checks of a model of your own, and an estimate of exact cross-validation from few refits."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from .declared import Positive, Real, Rng, Whole, declared
from .derivatives import Derivatives, check_weights_read, derivatives_of
from .folds import Folds, leave_one_out
from .folds import weights as weights_without
from .folds.sites import Known
from .methods.exact import exact
from .model import AModel
from .results import AResult

STEP = 1e-5  # of the differences: their error is then far below the tolerance
LEAST = 1e-6  # of params, in which the steps are at least counted
SINGLE_SITES = 300  # left out one by one


class Estimate(NamedTuple):
    """An estimate of the `loss` of full exact CV, with its standard error."""

    loss: float
    se: float
    n_exact: int


@declared
def difference_estimate(
    result: AResult, n_exact: Annotated[int, Whole(2, "n_folds")], rng: Rng
) -> Estimate:
    """Estimate full exact CV without bias from any method and `n_exact` random exact folds.

    `loss` of the method + mean of (exact - method) over the drawn folds, of their totals over the
    mean number of sites that a fold scores: the difference estimator of survey sampling, without
    replacement; its error comes from the differences alone.
    """
    n = len(result.folds)
    drawn = rng.choice(n, n_exact, replace=False)
    refit = exact(result.fit, result.folds.part(drawn))
    scored = len(np.concatenate(result.folds.scored)) / n
    gaps = (refit.fold_totals - result.fold_totals[drawn]) / scored
    se = gaps.std(ddof=1) * np.sqrt((1 - n_exact / n) / n_exact)
    return Estimate(float(result.loss + gaps.mean()), float(se), n_exact)


@declared
def check_model(
    model: AModel,
    params: Annotated[np.ndarray, Real("n_params")],
    rng: Rng,
    without: Callable[[np.ndarray], Any] | None = None,
    tolerance: Positive = 1e-4,
) -> dict[str, float]:
    """Check that a model of your own is what the methods take it for; relative errors by name.

    gradient, hessian, cross: derivatives against central differences. corner: the same where a
    fifth of the sites have weight 0, by differences into the inside, and F and its gradient without
    some hundred single sites: they must be finite, and F smooth in the weights up to there.
    heldout: losses of that fifth, in another order.
    deletion: weight 0 against a model that never had the sites; the gradients must agree, and the
    objectives but for a constant. Only `without` can show a term that forgets its weight: the
    derivatives of a wrong objective are right.

    Parameters
    ----------
    params : (D,), any point inside the domain, not an optimum
    without : sites -> the model built anew from the data of all other sites

    Raises
    ------
    ValueError : names the errors above `tolerance`, nan and inf among them; or sites whose weights
        nothing depends on
    """
    derivatives = derivatives_of(model)
    start = model.initial_params(np.random.default_rng(0))
    if params.shape != np.shape(start):
        raise ValueError(f"params {params.shape}: initial_params of the model gives {start.shape}")
    inside = rng.uniform(0.5, 0.9, model.n_sites)
    observed = Known.of(model).numbers
    size = min(max(1, len(observed) // 5), max(1, len(observed) - 1))  # about a fifth, and not all
    sites = np.sort(rng.choice(observed, size, replace=False))
    corner = weights_without(model.n_sites, sites)
    sideways = rng.uniform(-1.0, 1.0, model.n_sites)
    inwards = np.where(corner == 0.0, 1.0, -1.0) * rng.uniform(0.5, 1.0, model.n_sites)
    draws = rng.standard_normal(len(params))
    with np.errstate(all="ignore"):  # a logarithm of weight 0: what is not finite is reported
        units = _units(derivatives, params, inside)
        along = units * draws
        errors = _differences(derivatives, params, inside, units, draws, sideways)
        at_corner = _differences(derivatives, params, corner, units, draws, inwards, one_sided=True)
        chosen = rng.permutation(len(observed))[:SINGLE_SITES]
        near = [params + step * along for step in (0.0, 1e-3, 0.1)]  # a slope may be 0 at a point
        slopes = np.vstack([derivatives.cross_matrix(point, inside) for point in near])
        single = derivatives.fold_gradients(params, leave_one_out(model)[chosen])
    check_weights_read("residual" if derivatives.is_equation else "objective", slopes, observed)
    finite = all(np.isfinite(part).all() for part in single)
    errors["corner"] = max(*at_corner.values(), 0.0 if finite else float("inf"))
    there, back = (derivatives.heldout(params, Folds([s]))[0] for s in (sites, sites[::-1]))
    errors["heldout"] = _relative(back, there[::-1])
    if without is not None:
        smaller = derivatives_of(without(sites))
        errors["deletion"] = _deletion_error(derivatives, smaller, params, along, corner)
    wrong = {name: error for name, error in errors.items() if not error <= tolerance}
    if wrong:
        named = ", ".join(f"{name} {error:.2g}" for name, error in wrong.items())
        remedies = "; ".join(_REMEDIES[name] for name in wrong)
        raise ValueError(f"relative errors of {named}: {remedies}")
    return errors


_DERIVATIVE = "an operation of the objective has a wrong derivative, or is not smooth"
_REMEDIES = {
    "gradient": _DERIVATIVE,
    "hessian": _DERIVATIVE,
    "cross": "the gradient is not smooth in the weights, or its derivative is wrong",
    "corner": "at weight 0 a derivative is not finite or jumps: avoid log, division or roots of it",
    "heldout": "heldout_loss must give a loss for each site of the fold, in the order of the fold",
    "deletion": "weight 0 does not delete a site: multiply every term of the site by its weight",
}


def _units(derivatives, params, weights):
    """Lengths (D,) in which params are stepped: what the term of a site moves each by, or less."""
    sizes = np.sqrt((derivatives.cross_matrix(params, weights) ** 2).mean(axis=1))
    curvatures = abs(np.diag(np.asarray(derivatives.hessian(params, weights))))
    units = sizes / curvatures * len(weights)
    if not derivatives.is_equation:
        units = np.fmin(units, 1.0 / sizes)
    units = np.maximum(units, LEAST * abs(params))
    return np.where((units > 0.0) & np.isfinite(units), units, 1.0)


def _differences(derivatives, params, weights, units, draws, sideways, one_sided=False):
    """Relative errors of H and J, and of the gradient where there is an objective."""

    def at(step: float, aside: float = 0.0) -> Any:
        point = params + step * units * draws
        value, gradient = derivatives.value_and_gradient(point, weights + aside * sideways)
        return value, units * gradient

    hessian = units * (derivatives.hessian(params, weights) @ (units * draws))
    cross = units * (derivatives.cross_matrix(params, weights) @ sideways)
    errors = {
        "hessian": _relative(hessian, _slope(lambda step: at(step)[1])),
        "cross": _relative(cross, _slope(lambda step: at(0.0, step)[1], one_sided)),
    }
    if not derivatives.is_equation:
        errors["gradient"] = _relative(at(0.0)[1] @ draws, _slope(lambda step: at(step)[0]))
    return errors


def _deletion_error(derivatives: Derivatives, smaller: Derivatives, params, along, corner):
    """How much gradient and change of objective differ from those of the smaller model."""
    rest = np.ones(smaller.n_sites)
    change = 0.1 * along
    here = derivatives.value_and_gradient(params, corner)
    there = derivatives.value_and_gradient(params + change, corner)
    here_smaller = smaller.value_and_gradient(params, rest)
    there_smaller = smaller.value_and_gradient(params + change, rest)
    gradient = _relative(here[1], here_smaller[1])
    objective = _relative(there[0] - here[0], there_smaller[0] - here_smaller[0])
    return max(gradient, objective)


def _slope(function, one_sided=False):
    """The derivative of a function at 0, by differences; to the right alone if one-sided."""
    right = np.asarray(function(STEP))
    if one_sided:  # of second order: the next point removes the error of the first
        further = np.asarray(function(2 * STEP))
        return (4 * right - 3 * np.asarray(function(0.0)) - further) / (2 * STEP)
    return (right - np.asarray(function(-STEP))) / (2 * STEP)


def _relative(derivative, difference):
    """|derivative - difference| / |difference|; inf where something is not finite."""
    error = np.linalg.norm(derivative - difference) / (np.linalg.norm(difference) + 1e-12)
    return float(error) if np.isfinite(error) else float("inf")
