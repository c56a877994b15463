"""Trials of a search that cannot be evaluated: each is named, the others go on, none can win.

A trial is a start of a fit, a fold, a candidate model, a value of a hyperparameter.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .checks import NotFinite


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
