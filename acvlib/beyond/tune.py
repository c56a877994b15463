"""argmin CV(alpha), by the gradient of exact cross-validation: L-BFGS on log alpha."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..checks import one_line, warn
from ..declared import Count, NonNegative, declared
from ..fit import TOLERANCE
from ..folds import Folds
from ..methods.exact import exact
from ..results import CVResult, Fit
from ..trials import AllFailed, attempt
from .cv_gradient import Alpha, ModelOf, checked_bounds, cv_gradient

REACH = 1e4  # times the start, and its inverse: bounds unless some are given
FLAT = 1e-3  # of the first gradient: what counts as none
SETTLED = 1e-6  # standard errors of the loss by which a last step lowers it
SAME = 1e-3  # standard errors of the loss that refits from elsewhere may change


class OtherOptimum(UserWarning):
    """Refits that went on from alpha to alpha ended elsewhere than those from the fit."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """What `tune` found.

    alpha, gradient = dloss/dalpha, at_bound: each (A,), at the least loss of the path; loss: there,
    by `exact` from the fit; alphas (n, A), losses (n,): of each evaluation in order; rejected: (the
    alpha, why it cannot be evaluated) of those whose loss counts as infinite; converged: whether
    L-BFGS came to an end of its own; message: its words; model, fit, result: at alpha, result of
    `exact`.
    """

    __repr__ = one_line
    alpha: np.ndarray
    loss: float
    gradient: np.ndarray
    at_bound: np.ndarray
    converged: bool
    rejected: tuple[tuple[np.ndarray, str], ...]
    message: str
    alphas: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)
    model: Any = field(repr=False)
    fit: Fit = field(repr=False)
    result: CVResult = field(repr=False)


@declared
def tune(
    model_of: ModelOf,
    start: Alpha,
    folds: Folds,
    params: np.ndarray | None = None,
    bounds: Any = None,
    max_evaluations: Count = 30,
    tolerance: NonNegative = TOLERANCE,
) -> Tuning:
    """Minimise the exact cross-validated loss of model_of(alpha) from alpha = start.

    Each evaluation is a `cv_gradient`, whose fit and refits go on from those of the best so far.
    Where its fit or a fold is singular, has no finite optimum or does not converge, the search
    steps back halfway, and keeps the reason. The end is a local minimum. The cross-validated loss
    there is too low, as it was chosen: judge by data that no fold has.

    Parameters
    ----------
    model_of, params, tolerance : as of `cv_gradient`
    start : (A,) positive hyperparameters
    bounds : (low, high), positive numbers or arrays (A,); by default 1e4 times down and up
    max_evaluations : after which no new line search starts

    Warns `OtherOptimum` where refits from the fit give another loss, or none: it is then that of
    the refits along alpha.

    Raises
    ------
    AllFailed : the start cannot be evaluated
    ValueError, TypeError : as `cv_gradient`, and what fits raise, with the alpha that they met
    """
    search = _Search(model_of, start, folds, params, bounds, tolerance)
    message, converged = search.run(max_evaluations)
    best = search.best
    result, reason = attempt(exact, best.fit, best.result.folds, tolerance)
    if reason:
        result = best.result
        warn(f"tune: refits from the fit fail: {reason}", OtherOptimum)
    gap = abs(result.loss - best.loss)
    if gap > SAME * _unit(best.result):
        message = f"tune: refits from the fit give loss {result.loss:.6g}, those along alpha "
        warn(f"{message}{best.loss:.6g}: some fold has two optima", OtherOptimum)
    ends = np.array([search.low, search.high])
    return Tuning(
        alpha=best.alpha,
        loss=result.loss,
        gradient=best.gradient,
        at_bound=np.isclose(ends, best.alpha, rtol=1e-9, atol=0.0).any(axis=0),
        converged=converged,
        message=message,
        rejected=tuple(search.rejected),
        alphas=np.array(search.alphas),
        losses=np.array(search.losses),
        model=best.model,
        fit=best.fit,
        result=result,
    )


def _unit(result):
    """The standard error of the loss, where there is one."""
    return result.se if result.se > 0.0 else max(abs(result.loss), 1e-300)


class _Search:
    """The evaluations so far, and the best of them, from whose refits the next one goes on."""

    def __init__(self, model_of, start, folds, params, bounds, tolerance):
        bounds = (start / REACH, start * REACH) if bounds is None else bounds
        self.start = start
        self.low, self.high = checked_bounds(start, bounds)
        if not (self.low.min() > 0.0 and np.isfinite(self.high).all()):
            raise ValueError(f"bounds {bounds!r:.80} must be positive and finite")
        self.settings = (model_of, folds, params, tolerance)
        self.best = None
        self.alphas, self.losses, self.rejected = [], [], []

    def run(self, most: int):
        """(message, whether it converged) of L-BFGS."""
        from scipy.optimize import minimize  # a fifth of the time of importing acvlib

        log_start = np.log(self.start)
        first = self._evaluate(log_start)
        steepness = np.linalg.norm(first[1])  # with it as unit, the first step has length one
        self.settled = self.last

        def scaled(log_alpha: np.ndarray):
            at_start = np.array_equal(log_alpha, log_start)
            rise, slopes = first if at_start else self._evaluate(log_alpha)
            return rise / steepness, slopes / steepness

        def settle(_: Any):
            self.settled = self.last

        end = minimize(
            scaled,
            log_start,
            jac=True,
            method="L-BFGS-B",
            bounds=np.log([self.low, self.high]).T,
            callback=settle,
            options={"maxfun": most, "ftol": SETTLED / steepness, "gtol": FLAT},
        )
        return end.message, bool(end.success)

    def _evaluate(self, log_alpha):
        """(loss above the first, gradient by log alpha), in standard errors of the first loss."""
        alpha = np.clip(np.exp(log_alpha), self.low, self.high)
        here, reason = attempt(self._at, alpha)
        self.alphas.append(alpha)
        self.losses.append(np.inf if reason else here.loss)
        if reason:
            self.rejected.append((alpha, reason))
            return self._step_back(log_alpha)
        if self.best is None:
            self.unit = _unit(here.result)
        if self.best is None or here.loss < self.best.loss:
            self.best = here
        rise = (here.loss - self.losses[0]) / self.unit
        self.last = (log_alpha, rise, alpha * here.gradient / self.unit)
        return self.last[1:]

    def _step_back(self, log_alpha):
        """A parabola along the step, as steep where that began, and lowest halfway to its end."""
        if self.best is None:
            ((alpha, reason),) = self.rejected
            remedy = "start elsewhere, or raise tolerance where something did not converge"
            raise AllFailed(f"tune cannot evaluate its start, alpha {alpha}: {remedy}. {reason}")
        began, rise, slopes = self.settled
        step = log_alpha - began
        return rise, abs(slopes @ step) / (step @ step) * step

    def _at(self, alpha):
        model_of, folds, params, tolerance = self.settings
        bounds = (self.low, self.high)
        try:
            return cv_gradient(model_of, alpha, folds, params, bounds, tolerance, self.best)
        except Exception as error:
            error.add_note(f"tune met this at alpha {alpha}: bounds may keep it away")
            raise
