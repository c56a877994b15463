"""Derivatives of any objective by autograd or by differences, and its refit by scipy:
no acvlib in it.
"""

import numpy as np
from autograd import grad, hessian, jacobian
from scipy.optimize import minimize


def derivatives(objective, params, weights):
    """(F, gradient (D,), H (D, D), J (D, n_sites)) of any objective, by autograd."""
    cross = jacobian(grad(objective, 0), 1)(params, weights)
    return (
        objective(params, weights),
        grad(objective)(params, weights),
        hessian(objective)(params, weights),
        cross,
    )


def central_difference(function, params, step=1e-5):
    """Jacobian of a function by central differences, derivative axis last."""
    shifts = step * np.eye(len(params))
    return np.stack(
        [(function(params + s) - function(params - s)) / (2 * step) for s in shifts], axis=-1
    )


def refit(objective, start, weights, gtol=1e-9):
    """argmin F(., weights) near start, by scipy's trust-region Newton method on autograd's
    derivatives.
    """
    done = minimize(
        objective,
        start,
        args=(weights,),
        jac=grad(objective),
        hess=hessian(objective),
        method="trust-exact",
        options={"gtol": gtol, "initial_trust_radius": 0.1},
    )
    return done.x
