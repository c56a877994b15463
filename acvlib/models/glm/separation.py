"""Separable data: directions along which a likelihood rises for ever; of all sites, or of those a fold keeps."""

import numpy as np
from scipy.optimize import linprog

from ...folds import indicator, sizes


class NoFiniteOptimum(ValueError):
    """The objective has no minimum: it keeps falling along a ray."""


def separating_direction(design, free):
    """A direction (D,) along which no loss rises and some fall, or None (Albert and Anderson 1984).

    design (n, D) of full rank; free (n,): 1, -1 where the loss does not rise as eta goes to plus, minus
    infinity, 0 where it rises both ways.
    """
    one_way = free != 0
    gains = design[one_way] * free[one_way, None]
    fixed = design[~one_way]
    found = linprog(
        -gains.sum(axis=0),
        A_ub=-gains if len(gains) else None,
        b_ub=np.zeros(len(gains)) if len(gains) else None,
        A_eq=fixed if len(fixed) else None,
        b_eq=np.zeros(len(fixed)) if len(fixed) else None,
        bounds=(-1.0, 1.0),
    )
    scale = abs(gains).sum(axis=0).max(initial=0.0)
    return found.x if found.success and -found.fun > 1e-8 * scale else None


def check_folds(free, folds):
    """Raises NoFiniteOptimum for the first fold that leaves responses of one kind only; free as above.

    An unpenalised intercept then runs to infinity, whatever the other columns.
    """
    if sizes(folds).max() < min(
        (free == 1).sum() + (free == 0).sum(), (free == -1).sum() + (free == 0).sum()
    ):
        return
    kept = np.array(
        [(free == sign).sum() - indicator(folds, len(free)) @ (free == sign) for sign in (-1, 0, 1)]
    )
    alone = (kept[1] == 0) & ((kept[0] == 0) | (kept[2] == 0))
    if alone.any():
        fold = np.argmax(alone)
        raise NoFiniteOptimum(
            f"fold {fold} leaves {kept[:, fold].sum():.0f} sites to fit, and their responses are all of one class: "
            "use fewer sites a fold, or stratified folds"
        )
