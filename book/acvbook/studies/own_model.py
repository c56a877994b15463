"""A model that a reader writes: how long it is, and what the rungs are worth on it."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import acvlib as acv


def source_lines(cls: type) -> int:
    """Lines of a class with code in them: its first line, and those of its functions.

    Taken from the source of each function, as Python keeps none of a class typed into a notebook.
    """
    functions = [member for member in vars(cls).values() if inspect.isfunction(member)]
    lines = [line for function in functions for line in inspect.getsourcelines(function)[0]]
    return 1 + sum(bool(line.strip()) for line in lines)


def theta_errors(
    draw: Callable[[np.random.Generator], Any], n_draws: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Median parameter error of each rung, in standard errors; one row a draw of a model's data and
    of 20 blocks of 2.5 %.
    """
    rows = []
    for _ in range(n_draws):
        model = draw(rng)
        folds = acv.folds.contiguous(model.n_sites, percent=2.5, n_folds=20, rng=rng)
        rungs = acv.ladder(model, acv.fit(model), folds)
        exact = rungs.pop("exact")
        rows.append({name: np.median(acv.theta_errors(exact, r)) for name, r in rungs.items()})
    return pd.DataFrame(rows).rename_axis("draw")
