"""Derivatives of any objective by autograd or differences, and its refit, without acvlib."""

import numpy as np
from autograd import grad, hessian, jacobian
from scipy.optimize import minimize


def derivatives(objective, params, weights):
    """(F, gradient (D,), H (D, D), J (D, n_sites)) of any objective, by autograd."""
    cross = jacobian(grad(objective, 0), 1)
    functions = objective, grad(objective), hessian(objective), cross
    return tuple(f(params, weights) for f in functions)


def central_difference(function, params, step=1e-5):
    """Jacobian of a function by central differences, derivative axis last."""
    shifts = step * np.eye(len(params))
    slopes = [(function(params + s) - function(params - s)) / (2 * step) for s in shifts]
    return np.stack(slopes, axis=-1)


def refit(objective, start, weights, gtol=1e-9):
    """argmin F(., weights) near start, by scipy's trust-region Newton method."""
    options = {"gtol": gtol, "initial_trust_radius": 0.1}
    own = {"jac": grad(objective), "hess": hessian(objective), "options": options}
    return minimize(objective, start, (weights,), "trust-exact", **own).x
