"""Fit a weighted model with all its data: L-BFGS, then Newton steps; only these if convex."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np

from .checks import LARGEST, real_array, warn
from .declared import Positive, Real, Rng, declared
from .derivatives import derivatives_of
from .folds import WHOLE
from .model import AModel
from .results import TOLERANCE, Fit
from .solvers.inverse import IndefiniteHessian, Solvable
from .solvers.krylov import conjugate_gradient
from .solvers.newton import newton
from .solvers.newton_cg import below_saddle, newton_cg
from .trials import FAILURES, NoFiniteOptimum
from .weighting import unit_of, warn_of_size

Start = Annotated[np.ndarray, Real("n_params")]
MAX_SADDLES = 20  # that a fit leaves
ROUNDS = 3  # of Newton steps, where the way is long
REPEATED, MOST_STARTS = 5, 30  # how often starts shall lead to the fit, and of how many at most
SAME = 0.1  # nats: where EM ends from two starts, closer than that is one optimum
PULL = 0.1  # standard errors that a prior which nobody chose may move an optimum
SILENT = 1e-7  # share of the curvature along a direction, of which the data then say nothing
DIFFERENCE = 1e-5  # of params, by which gradients of priors are differenced


class UnrepeatedOptimum(UserWarning):
    """Few of the starts ended at a fit: there may be lower optima."""


class StrongPrior(UserWarning):
    """A prior that nobody chose moves the fit by a tenth of a standard error or more."""


@declared
def fit(
    model: AModel,
    start: Start | None = None,
    rng: Rng | None = None,
    tolerance: Positive = TOLERANCE,
) -> Fit:
    """argmin F(params, 1), to a Newton decrement of at most `tolerance` standard errors.

    Parameters
    ----------
    start : (D,), by default model.initial_params(rng), or of a model with `restart_points` the best
        of five or more, until five end within .1 nat of it, or thirty are tried, and with
        `further_starts` the best of all; given to a matrix-free model, it is where Newton's method
        starts, without L-BFGS

    Warns `UnconvergedFit` where the tolerance is not reached, for instance at a saddle; the
    returned `newton_decrement` then says how far off it is. Warns `UnrepeatedOptimum` where less
    than five of thirty starts led to it, `StrongPrior` where priors that nobody chose move it by
    a tenth of a standard error, `SmallObjective` where those of a model of your own are a hundred
    times what its losses say, as of squares of small residuals. Raises what the model's
    `check_optimum` raises, `NoFiniteOptimum` where params run beyond all numbers.
    """
    derivatives = derivatives_of(model)
    defaults = derivatives.defaults
    matrix_free = derivatives.matrix_free
    near = derivatives.is_equation or (start is not None and matrix_free)
    starts = _starts(derivatives, rng) if start is None else [start]
    if defaults.quadratic or near or (defaults.convex and not matrix_free):
        solve = _solved if defaults.quadratic else _polished
        result = solve(derivatives, starts[0], tolerance)
        defaults.check_optimum(result.params)
    else:
        result = _descended(derivatives, starts, tolerance)
    result.warn_unconverged("fit", tolerance)
    if defaults.default_priors is not None and np.isfinite(result.newton_decrement):
        _warn_of_priors(result, defaults.default_priors)
    is_ours = type(model).__module__.startswith("acvlib.models")
    if not (is_ours or near or matrix_free or defaults.quadratic):
        with suppress(*FAILURES), np.errstate(all="ignore"):
            warn_of_size(result)
    return result


def _starts(derivatives, rng):
    """Points (D,) to fit from, the most promising first."""
    defaults = derivatives.defaults
    model = derivatives.model
    if not defaults.restarts_climbed:
        start = real_array("start", model.initial_params(rng), 1)
        return [start] if defaults.further_starts is None else _ends(derivatives, start)
    rng = np.random.default_rng(0) if rng is None else rng
    ones = np.ones(derivatives.n_sites)
    starts = []
    objectives = []
    same = 0
    while same < REPEATED and len(starts) < MOST_STARTS:
        more = defaults.restart_points(rng, REPEATED)
        starts += more
        objectives += [derivatives.value_and_gradient(each, ones)[0] for each in more]
        same = np.sum(np.array(objectives) < np.nanmin(objectives) + SAME)
    if same < REPEATED:
        message = f"{same} of {len(starts)} starts alone led to the fit: there may be lower optima"
        warn(f"{message}. Fit again from other starts, by rng=", UnrepeatedOptimum)
    return [starts[place] for place in np.argsort(objectives)]


def _ends(derivatives, start):
    """Where L-BFGS ends from a start and further ones: the lowest optimum first.

    What runs to infinity comes last; but where the start itself does, it is first: no optimum above
    where that ran is a fit.
    """
    starts = [start, *derivatives.defaults.further_starts()]
    ends = [_lbfgs(derivatives, each)[-1] for each in starts]
    ones = np.ones(derivatives.n_sites)
    objectives = [derivatives.value_and_gradient(end, ones)[0] for end in ends]
    ranks = [0] * len(ends)
    for place, end in enumerate(ends):
        try:
            derivatives.defaults.check_optimum(end)
        except ValueError:
            ranks[place] = 1 if place else -1
    order = sorted(range(len(ends)), key=lambda place: (ranks[place], objectives[place]))
    return [ends[place] for place in order]


def _warn_of_priors(fit, priors_at):
    """Judged together; each is named that has its share in the limit."""
    priors = priors_at(fit.params)
    if not priors:
        return

    def total(params: np.ndarray) -> np.ndarray:
        return sum(gradient for gradient, _ in priors_at(params).values())

    gradients = [gradient for gradient, _ in priors.values()]
    pulls = _pulls(fit, np.array([sum(gradients), *gradients]), total)
    together, *alone = pulls / unit_of(fit.model)
    if together < PULL:
        return
    shares = zip(priors.items(), alone, strict=True)
    named = [(*prior, size) for prior, size in shares if size >= PULL / len(priors)]
    told = ", ".join(f"{name} by {size:.2g}" for name, _, size in named)
    wider = ", ".join(remedy for _, (_, remedy), _ in named)
    warn(
        f"default priors move the fit, in standard errors: {told}. Widen them, such as {wider}, "
        "or give ones that you mean",
        StrongPrior,
    )


def _pulls(fit, gradients, total):
    """sqrt(g' (H - P)^-1 g) (n,): standard errors of what is left without default priors.

    P is the derivative of `total`, the sum of the priors' gradients. What P alone curves to all but
    a share `SILENT` has no pull, as the data say nothing there.
    """

    def of_data(vectors: np.ndarray, _: Any) -> np.ndarray:
        rest = (1.0 + SILENT) * (vectors @ fit.hessian)
        sizes = DIFFERENCE * (1.0 + abs(fit.params).max()) / abs(vectors).max(axis=1)
        for row, (size, step) in enumerate(zip(sizes, sizes[:, None] * vectors, strict=True)):
            rest[row] -= (total(fit.params + step) - total(fit.params - step)) / (2.0 * size)
        return rest

    def by_hessian(vectors: np.ndarray, _: Any) -> np.ndarray:
        return fit.hessian.solve(vectors.T).T if len(vectors) else vectors

    products = SimpleNamespace(multiply=of_data, precondition=by_hessian)
    return np.sqrt(2.0 * conjugate_gradient(products, gradients).decrease)


def _descended(derivatives, starts, tolerance):
    """The fit from the first start that ends at an optimum, below where others ran to infinity."""
    refusals, lowest = [], np.inf
    for start in starts:
        end = _lbfgs(derivatives, start)[-1]
        try:
            derivatives.defaults.check_optimum(end)  # Newton's method would run on and on
            result = _polished(derivatives, end, tolerance)
            derivatives.defaults.check_optimum(result.params)
            if result.objective < lowest:
                return result
        except ValueError as error:
            refusals.append(error)
            ran_to = derivatives.value_and_gradient(end, np.ones(derivatives.n_sites))[0]
            lowest = min(lowest, ran_to)
    worded = [error for error in refusals if not isinstance(error, np.linalg.LinAlgError)]
    raise (worded or refusals)[0]


@declared
def fit_at(model: AModel, params: Start) -> Fit:
    """Describe a model at any params (D,), optimal or not, as a `Fit`."""
    derivatives = derivatives_of(model)
    return _described(derivatives, params, derivatives.hessian(params, np.ones(model.n_sites)))


@declared
def fit_path(model: AModel, start: Start | None = None, rng: Rng | None = None) -> list[np.ndarray]:
    """List the iterates (D,) of L-BFGS from the start on, for the study of inexact optima."""
    start = real_array("start", model.initial_params(rng), 1) if start is None else start
    return _lbfgs(derivatives_of(model), start)


def _described(derivatives, params, hessian):
    value, gradient = derivatives.value_and_gradient(params, np.ones(derivatives.n_sites))
    metric = derivatives.metric(params, hessian)
    return Fit(
        model=derivatives.model,
        params=params,
        objective=value,
        grad_norm=float(np.linalg.norm(gradient)),
        newton_decrement=newton_decrement(gradient, hessian, metric),
        hessian=hessian,
        metric=metric,
    )


def newton_decrement(gradient: np.ndarray, hessian: Solvable, metric: Any = None) -> float:
    """The length of the Newton step in standard errors, sqrt(g' H^-1 g); inf where H is indefinite.

    metric: that of an estimating equation, whose Jacobian H does not measure lengths.
    """
    if hessian.indefinite:
        return float("inf")
    try:
        step = hessian.solve(gradient)
    except IndefiniteHessian:  # met on the way, where it was not known before
        return float("inf")
    squared = step @ gradient if metric is None or metric is hessian else step @ (metric @ step)
    return float(np.sqrt(max(squared, 0.0)))


def _solved(derivatives, start, _):
    """The optimum of a quadratic F: one Newton step."""
    weights = np.ones(derivatives.n_sites)
    _, gradient = derivatives.value_and_gradient(start, weights)
    hessian = derivatives.hessian(start, weights)
    optimum = start if hessian.indefinite else start - hessian.solve(gradient)
    return _described(derivatives, optimum, hessian)


def _polished(derivatives, params, tolerance):
    """Newton steps from params (D,); from each saddle on to a lower point."""
    solver = newton_cg if derivatives.matrix_free else newton
    # Far from an equation's solution large residuals make errors look small: it is solved twice.
    least = 2 if derivatives.is_equation else 1
    tolerance = tolerance * unit_of(derivatives.model)
    closer = 0.1 * tolerance  # as the last step's Hessian may be another point's
    for done in range(1, ROUNDS + 1):
        own = derivatives.refits(params, WHOLE, closer)
        refit = solver(derivatives, params, WHOLE, closer) if own is None else own
        params = refit.params[0]
        if not abs(params).max(initial=0.0) <= LARGEST:
            raise NoFiniteOptimum(f"the fit ran to params of {abs(params).max():.2g}")
        if done >= least and (refit.converged[0] or derivatives.matrix_free):
            break
    found = fit_at(derivatives.model, params)
    for _ in range(MAX_SADDLES if derivatives.matrix_free else 0):
        lower = None
        if np.isinf(found.newton_decrement):
            lower = below_saddle(derivatives, found.params)
        if lower is None:
            break
        end = newton_cg(derivatives, lower, WHOLE, tolerance).params[0]
        found = fit_at(derivatives.model, end)
    return found


def _lbfgs(derivatives, start):
    from scipy.optimize import minimize  # a fifth of the time of importing acvlib

    iterates = [start]
    weights = np.ones(derivatives.n_sites)
    minimize(
        lambda p: derivatives.value_and_gradient(p, weights),
        start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda p: iterates.append(p.copy()),
        options={"maxiter": 1000},
    )
    return iterates
