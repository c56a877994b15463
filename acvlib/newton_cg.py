"""Newton's method without a Hessian: each fold's steps from conjugate gradients, to its Newton decrement.

The counterpart of `refine` for models whose fast path has `hessian_products`. Folds are independent, and run in
joblib's workers; a step that does not descend is halved, and one that meets negative curvature goes along it.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed

from . import curvature
from .krylov import conjugate_gradient
from .progress import track

MAX_STEPS = 300
ROUGH, FINE = 0.1, 1e-3  # relative residuals of a step far from the optimum, and of one near it
NEAR = 1.0  # decrement, in standard errors, below which steps are solved to FINE
SLACK = 1e-10


@dataclass
class Descent:
    """Where one or many folds ended; the attributes of `refine.Refinement` that `exact` and `fit` report."""

    params: np.ndarray
    decrement: np.ndarray
    smallest_eigenvalue: np.ndarray
    steps: np.ndarray
    converged: np.ndarray
    evaluations: Counter = field(default_factory=Counter)


def newton_cg(model, params, folds, tolerance):
    """Each fold's optimum near params (n_folds, D), as a `Descent`.

    Converged: the decrement sqrt(g' H^-1 g) is at most `tolerance` and no direction of negative curvature was met.
    smallest_eigenvalue: the least Ritz value of the last step, see `krylov.conjugate_gradient`.
    """
    jobs = zip(params, track(folds, "exact folds"), strict=True)
    parts = Parallel(require="sharedmem")(delayed(_descend)(model, p, fold, tolerance) for p, fold in jobs)
    columns = [np.array(column) for column in zip(*(part[:-1] for part in parts), strict=True)]
    return Descent(*columns, sum((part[-1] for part in parts), Counter()))


def _descend(model, params, fold, tolerance):
    """(params, decrement, smallest Ritz value, steps, converged, evaluations) of one fold."""
    values, gradients = curvature.fold_gradients(model, params[None], [fold])
    counts, decrement, smallest, step = Counter(gradient=1), np.inf, np.nan, 0
    for step in range(MAX_STEPS):
        products = curvature.hessian_products(model, params[None], [fold])
        solved = conjugate_gradient(
            getattr(products, "rough", None) or products, -gradients, FINE if decrement < 10 * NEAR else ROUGH
        )
        counts["hvp"] += solved.products
        move, smallest = solved.x[0], solved.smallest[0]
        decrement = float(np.sqrt(max(-(gradients[0] @ move), 0.0)))
        if decrement <= tolerance and smallest > 0.0:
            return params, decrement, smallest, step, True, counts
        trial = _line_search(model, params, move, fold, values, gradients[0], counts)
        if trial is None:
            break
        params, values, gradients = trial
    return params, decrement, smallest, step, False, counts


def _line_search(model, params, move, fold, values, gradient, counts):
    """(params, values, gradients) after the longest of the halved moves that descends, or None."""
    slope, scale = gradient @ move, 1.0
    while scale > 1e-6:
        trial = params + scale * move
        new, gradients = curvature.fold_gradients(model, trial[None], [fold])
        counts["gradient"] += 1
        if new[0] <= values[0] + 1e-4 * scale * slope + SLACK * (1.0 + abs(values[0])):
            return trial, new, gradients
        scale *= 0.5
    return None
