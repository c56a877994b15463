"""Newton's method without a Hessian: each fold's steps from conjugate gradients, to its Newton decrement.

The counterpart of `refine` for models whose fast path has `hessian_products`. Folds are independent, and run in
joblib's workers. Steps stay in a trust region of the preconditioner's norm (Steihaug 1983): where the preconditioner
is the complete-data information, that counts in standard errors.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from joblib import delayed

from .. import derivatives as curvature
from ..folds import WHOLE
from ..parallel import threads, track
from .krylov import conjugate_gradient

MAX_STEPS = 1000  # through the shallow valleys of a network
ROUGH, FINE = 0.1, 1e-3  # relative residuals of a step far from the optimum, and of one near it
NEAR = 1.0  # decrement, in standard errors, below which steps are solved to FINE
RADIUS = 10.0  # standard errors of the first trust region
N_HALVINGS = 15  # of the first step off a saddle
ACCEPTED = 1e-4  # of the promised decrease: what a step must bring
SLACK = 1e-11  # relative rounding error of an objective, below which descent cannot be seen


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
    parts = threads()(delayed(_descend)(model, p, fold, tolerance) for p, fold in jobs)
    columns = [np.array(column) for column in zip(*(part[:-1] for part in parts), strict=True)]
    return Descent(*columns, sum((part[-1] for part in parts), Counter()))


def _descend(model, params, fold, tolerance):
    """(params, decrement, smallest Ritz value, steps, converged, evaluations) of one fold."""
    here = _Point(model, params, fold)
    counts, radius, decrement, smallest = Counter(gradient=1), RADIUS, np.inf, np.nan
    for step in range(MAX_STEPS):
        move = here.step(FINE if decrement < NEAR else ROUGH, radius)
        decrement, smallest = (
            float(np.sqrt(max(-(here.gradient @ move.x[0]), 0.0))),
            move.smallest[0],
        )
        counts["hvp"] += move.products
        if decrement <= tolerance and smallest > 0.0 and move.norm[0] < 0.99 * radius:
            return here.params, decrement, smallest, step, True, counts
        there = _Point(model, here.params + move.x[0], fold)
        counts["gradient"] += 1
        rounding = SLACK * (1.0 + abs(here.value))
        ratio = (here.value - there.value + rounding) / (move.decrease[0] + rounding)
        radius = _radius(radius, move.norm[0], ratio)
        if ratio > ACCEPTED:
            here = there
        elif radius < 1e-8:
            break
    return here.params, decrement, smallest, step, False, counts


def below_saddle(model, params):
    """Params (D,) of lower F, along a direction of negative curvature; None where a random vector meets none.

    For points at which the gradient, as it vanishes, has no share in such a direction.
    """
    here, probe = (
        _Point(model, params, WHOLE[0]),
        np.random.default_rng(0).standard_normal(len(params)),
    )
    (way,) = conjugate_gradient(here.products, probe[None]).escape
    for length in RADIUS * 0.5 ** np.arange(N_HALVINGS) if way.any() else ():
        for there in (params + length * way, params - length * way):
            if _Point(model, there, WHOLE[0]).value < here.value - SLACK * (1.0 + abs(here.value)):
                return there
    return None


class _Point:
    """F and its gradient of one fold at some params, and the step from there."""

    def __init__(self, model, params, fold):
        self.params, self.products = params, curvature.hessian_products(model, params[None], [fold])
        (self.value,), (self.gradient,) = self.products.evaluate()

    def step(self, tolerance, radius):
        rough = getattr(self.products, "rough", None) or self.products
        return conjugate_gradient(rough, -self.gradient[None], tolerance, radius=radius)


def _radius(radius, norm, ratio):
    """The next trust region, after a step of this size did `ratio` of what its quadratic model promised."""
    if ratio < 0.25:
        return 0.25 * norm
    return max(radius, 2.0 * norm) if ratio > 0.75 else radius
