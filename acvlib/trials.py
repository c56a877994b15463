"""Trials of a search that cannot be evaluated: each is named, the others go on, none can win.

A trial is a start of a fit, a fold, a candidate model, a value of a hyperparameter. And tests of
whether an optimum is finite.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .checks import NotFinite

FLAT = 1e-10  # least eigenvalue of a Hessian, over the largest at the start: no optimum


class NoFiniteOptimum(ValueError):
    """The objective has no minimum: it keeps falling along a ray."""


class UnconvergedFit(UserWarning):
    """A method was handed parameters that are not at an optimum, or a fit did not reach one."""


class AllFailed(ValueError):
    """Nothing that a search tried can be evaluated; the message has the reason of each trial."""


# Not finite, singular, without optimum, not converged. Everything else is an error in the call.
FAILURES = (
    AllFailed,
    ArithmeticError,
    NoFiniteOptimum,
    NotFinite,
    UnconvergedFit,
    np.linalg.LinAlgError,
)


def attempt(trial: Callable, *arguments: Any) -> tuple[Any, str]:
    """(trial(*arguments), ""), or (None, why it cannot be evaluated): one of `FAILURES`.

    What warns of an `UnconvergedFit` has failed. All other errors are raised.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnconvergedFit)
        try:
            return trial(*arguments), ""
        except FAILURES as error:
            return None, f"{type(error).__name__}: {error}"


def attempt_each(what: str, trial: Callable, tasks: Iterable[tuple], remedy: str) -> tuple:
    """({name: trial(*arguments)}, ((name, why it failed), ...)) of tasks (name, *arguments).

    Raises AllFailed, with the remedy, where no trial can be evaluated.
    """
    found = {}
    rejected = []
    for name, *arguments in tasks:
        result, reason = attempt(trial, *arguments)
        if reason:
            rejected.append((name, reason))
        else:
            found[name] = result
    if not found:
        raise AllFailed(f"no {what} can be evaluated. {reasons(rejected)}. {remedy}")
    return found, tuple(rejected)


def reasons(rejected: Sequence[tuple[Any, str]]) -> str:
    """Say what was rejected and why, each reason once."""
    named: dict[str, list[str]] = {}
    for name, reason in rejected:
        named.setdefault(reason, []).append(str(name))
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in named.items())


def separated(design: np.ndarray, free: np.ndarray) -> bool:
    """Whether there is a direction (D,) along which no loss rises and some fall.

    design (n, D), of full rank; free (n,): 1, -1 where the loss does not rise as eta goes to plus,
    minus infinity, else 0.

    Source: Albert and Anderson (1984).
    """
    from scipy.optimize import linprog  # slow to import

    gains = design[free != 0] * free[free != 0, None]
    fixed = design[free == 0]
    solution = linprog(
        -gains.sum(axis=0),
        A_ub=-gains,
        b_ub=np.zeros(len(gains)),
        A_eq=fixed,
        b_eq=np.zeros(len(fixed)),
        bounds=(-1.0, 1.0),
    )
    scale = abs(gains).sum(axis=0).max(initial=0.0)
    return solution.success and -solution.fun > 1e-8 * scale


def check_curved(model: Any, params: np.ndarray, folds: Any) -> None:
    """Raise NoFiniteOptimum for the first fold at whose params F is flat in some direction.

    Only without a ridge, gamma_i = 0: there pairs or labels may be separated.
    """
    if model.gamma_i > 0.0:
        return
    start = model.initial_params()
    largest = np.linalg.eigvalsh(model.derivatives.hessian(start, np.ones(model.n_sites)))[-1]
    for part in model.derivatives.portions(folds, model.n_params):
        hessians = model.derivatives.fold_hessians(params[part], folds[part]).matrices
        flat = np.linalg.eigvalsh(hessians)[:, 0] <= FLAT * largest
        for number in part.start + np.flatnonzero(flat):
            where = f"without {folds.name(number)} " if len(folds[number]) else ""
            raise NoFiniteOptimum(
                f"{where}theta is infinite, or not determined in some direction: pass gamma_i > 0"
            )
