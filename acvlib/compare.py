"""One table of several methods on the same folds."""

from typing import Any

import numpy as np

from .extras import require
from .protocol import CVResult


def compare(reference: CVResult, *others: CVResult) -> Any:
    """Tabulate what each method says, how far it is from `reference`, and what it cost.

    A DataFrame, one row a method. loss, se: mean fold loss and its standard error; relative_error:
    mean over folds of |loss_o - reference_o| / |reference_o|; theta_error, theta_error_max: median
    and largest distance of a fold's params from the reference's, in standard errors of the full
    fit.

    Raises
    ------
    ValueError : results on different folds
    """
    for result in others:
        _check_same_folds(reference, result)
    rows = [_row(reference, result) for result in (reference, *others)]
    return require("pandas", extra="tables").DataFrame(rows).set_index("method")


def _check_same_folds(a, b):
    if not a.folds.same_as(b.folds):
        raise ValueError(
            f"{a.method} and {b.method} were run on different folds: compare like with like"
        )


def relative_errors(reference: CVResult, result: CVResult) -> np.ndarray:
    """|loss_o - reference_o| / |reference_o| for each fold (Ghosh et al. 2020, Table 1)."""
    return np.abs(result.fold_losses - reference.fold_losses) / np.abs(reference.fold_losses)


def theta_errors(reference: CVResult, result: CVResult) -> np.ndarray:
    """Distance of each fold's params from the reference's, in standard errors of the full fit."""
    return reference.fit.standard_errors_between(result.params, reference.params)


def _row(reference, result):
    error = theta_errors(reference, result)
    counts = [f"{count} {name}" for name, count in result.evaluations.items()]
    return {
        "method": result.method,
        "loss": result.loss,
        "se": result.se,
        "relative_error": relative_errors(reference, result).mean(),
        "theta_error": np.median(error),
        "theta_error_max": error.max(),
        "seconds": result.seconds,
        "evaluations": ", ".join(counts),
    }
