"""One table of several methods on the same folds."""

import numpy as np

from .folds import sizes


def compare(reference, *others):
    """A DataFrame, one row a method: what it says, how far it is from `reference`, what it cost.

    loss, se: mean fold loss and its standard error; relative_error: mean over folds of
    |loss_o - reference_o| / |reference_o|; theta_error, theta_error_max: median and largest distance of a
    fold's params from the reference's, in standard errors of the full fit; seconds; evaluations.
    """
    import pandas as pd

    for result in others:
        _check_same_folds(reference, result)
    rows = [_row(reference, result) for result in (reference, *others)]
    return pd.DataFrame(rows).set_index("method")


def _check_same_folds(a, b):
    same = np.array_equal(sizes(a.folds), sizes(b.folds))
    if not (same and np.array_equal(np.concatenate(a.folds), np.concatenate(b.folds))):
        raise ValueError(
            f"{a.method} and {b.method} were run on different folds: compare like with like"
        )


def relative_errors(reference, result):
    """|loss_o - reference_o| / |reference_o| for each fold (Ghosh et al. 2020, Table 1)."""
    return np.abs(result.fold_losses - reference.fold_losses) / np.abs(reference.fold_losses)


def theta_errors(reference, result):
    """Distance of each fold's params from the reference's, in standard errors of the full fit."""
    return reference.fit.standard_errors_between(result.params, reference.params)


def _row(reference, result):
    error = theta_errors(reference, result)
    return {
        "method": result.method,
        "loss": result.loss,
        "se": result.se,
        "relative_error": relative_errors(reference, result).mean(),
        "theta_error": np.median(error),
        "theta_error_max": error.max(),
        "seconds": result.seconds,
        "evaluations": ", ".join(f"{count} {name}" for name, count in result.evaluations.items()),
    }
