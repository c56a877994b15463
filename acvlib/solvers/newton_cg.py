"""Newton's method without a Hessian: each fold's steps from conjugate gradients, to its decrement.

The counterpart of `newton` for models whose derivatives have `products`. Folds are independent, and
run in joblib's workers. Steps stay in a trust region of the preconditioner's norm: where the
preconditioner is the complete-data information, that counts in standard errors.

Source: Steihaug (1983).
"""

from collections import Counter

import numpy as np
from joblib import delayed

from ..derivatives import Derivatives
from ..folds import WHOLE, Folds
from ..model import Refits
from ..parallel import threads, track
from ..weighting import unit_of
from .krylov import conjugate_gradient

MAX_STEPS = 1000  # through the shallow valleys of a network
ROUGH = 0.1  # relative residual of a step far from the optimum
FINE = 0.01  # relative residual of a step near it
RADIUS = 10.0  # standard errors of the first trust region
STUCK = 1e-8  # standard errors of a trust region in which nothing descends
INSIDE = 0.99  # of the radius, within which a step was not cut
N_HALVINGS = 15  # of the first step off a saddle
ACCEPTED = 1e-4  # of the promised decrease: what a step must bring
SLACK = 1e-11  # relative rounding error of an objective, below which descent cannot be seen


def newton_cg(
    derivatives: Derivatives,
    params: np.ndarray,
    folds: Folds,
    tolerance: float,
    max_steps: int = MAX_STEPS,
) -> Refits:
    """Refit each fold from params (D,), or (n, D), as `Refits`.

    Converged: the decrement sqrt(g' H^-1 g) is at most `tolerance`, and no direction of negative
    curvature was met. indefinite: whether the last step met one.
    """
    found = Refits.unfinished(len(folds), params.shape[-1])
    found.params[:] = params
    derivatives = derivatives.anchored(found.params[0].copy())
    parts = [slice(i, i + 1) for i in range(len(folds))]
    jobs = (
        delayed(_refit)(derivatives, folds[part], tolerance, max_steps, found.part(part))
        for part in track(parts, "exact folds")
    )
    for evaluations in threads()(jobs):
        found.evaluations.update(evaluations)
    return found


def _at(derivatives, params, fold):
    """(products, F, its gradient) of one fold at params (D,)."""
    products = derivatives.products(params[None], fold)
    (value,), (gradient,) = products.evaluate()
    return products, value, gradient


def _refit(derivatives, fold, tolerance, max_steps, found):
    """Refit one fold from the params in `found`, and write there what is known in the end."""
    params = found.params[0].copy()
    products, value, gradient = _at(derivatives, params, fold)
    evaluations = Counter(gradient=1)
    radius = RADIUS
    decrement = np.inf
    least = unit_of(derivatives.model) ** 2
    for _ in range(max_steps):
        accuracy = min(max(decrement, FINE), ROUGH)  # as near as the last step says
        rough = products.rough or products
        move = conjugate_gradient(rough, -gradient[None], accuracy, radius=radius)
        evaluations["hvp"] += move.products
        decrement = float(np.sqrt(max(-(gradient @ move.x[0]), 0.0)))
        found.indefinite[0] = move.curvature[0] <= 0.0
        inside = move.norm[0] < INSIDE * radius
        found.converged[0] = decrement <= tolerance and inside and not found.indefinite[0]
        if found.converged[0] or radius < STUCK:
            break
        found.steps[0] += 1
        there = _at(derivatives, params + move.x[0], fold)
        evaluations["gradient"] += 1
        rounding = SLACK * (least + abs(value))
        kept = (value - there[1] + rounding) / (move.decrease[0] + rounding)
        if kept < 0.25:  # of what the quadratic model promised
            radius = 0.25 * move.norm[0]
        elif kept > 0.75:
            radius = max(radius, 2.0 * move.norm[0])
        if kept > ACCEPTED:
            params = params + move.x[0]
            products, value, gradient = there
    found.params[0] = params
    found.decrement[0] = decrement
    found.residual[0] = np.linalg.norm(gradient)
    return evaluations


def below_saddle(derivatives: Derivatives, params: np.ndarray) -> np.ndarray | None:
    """Params (D,) of lower F, along a direction of negative curvature; None where none is met.

    For points at which the gradient, as it vanishes, has no share in such a direction: a random
    vector looks for it.
    """
    products, value, _ = _at(derivatives, params, WHOLE)
    probe = np.random.default_rng(0).standard_normal((1, len(params)))
    (way,) = conjugate_gradient(products, probe).escape
    limit = value - SLACK * (unit_of(derivatives.model) ** 2 + abs(value))
    for length in RADIUS * 0.5 ** np.arange(N_HALVINGS) if way.any() else ():
        for there in (params + length * way, params - length * way):
            if _at(derivatives, there, WHOLE)[1] < limit:
                return there
    return None
