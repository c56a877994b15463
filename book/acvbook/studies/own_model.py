"""A model that a reader writes: how long it is, and what the rungs are worth on it."""

import inspect
from typing import Any

import pandas as pd

import acvlib as acv

from .ladders import theta_table


def source_lines(written: Any) -> int:
    """Lines with code in them: of a function, or of a class, its first line and its functions'.

    Taken from the source of each function, as Python keeps none of a class typed into a notebook.
    """
    is_class = inspect.isclass(written)
    members = vars(written).values() if is_class else [written]
    functions = [member for member in members if inspect.isfunction(member)]
    lines = [line for function in functions for line in inspect.getsourcelines(function)[0]]
    return is_class + sum(bool(line.strip()) for line in lines)


def theta_errors(draw, n_draws, rng):
    """Median parameter error of each rung; one row a draw of data and of 20 blocks of 2.5 %."""
    rows = []
    for _ in range(n_draws):
        model = draw(rng)
        folds = acv.folds.contiguous(model.n_sites, percent=2.5, n_folds=20, rng=rng)
        rows.append(theta_table(acv.ladder(acv.fit(model), folds)).median())
    return pd.DataFrame(rows).rename_axis("draw")
