"""Refits of small GLMs in extended precision, far more exact than a certificate of them."""

import numpy as np

LONG = np.longdouble


SLOPES = {
    "gaussian": lambda eta, y: eta - y,
    "logistic": lambda eta, y: 1 / (1 + np.exp(-eta)) - y,
    "poisson": lambda eta, y: np.exp(eta) - y,
}


def refit(model, kept, start):
    """The optimum (D,) on the kept rows, from a start close to it: Newton steps whose gradients
    are summed in extended precision; None where they do not converge.
    """
    x = model.design[kept].astype(LONG)
    y = model.y[kept].astype(LONG)
    s = model.sample_weight[kept].astype(LONG)
    ridge = model.ridge(model.sample_weight[kept].sum()).astype(LONG)
    theta = np.asarray(start).astype(LONG)
    slope = SLOPES[model.family.name]
    for _ in range(60):
        eta = x @ theta + model.offset[kept]
        gradient = (s * slope(eta, y)) @ x + ridge * theta
        curvature = model.sample_weight[kept] * model.family.curvature(
            eta.astype(float), model.y[kept]
        )
        hessian = (model.design[kept].T * curvature) @ model.design[kept] + np.diag(ridge)
        step = np.linalg.solve(hessian.astype(float), gradient.astype(float))
        theta = theta - step
        if step @ hessian.astype(float) @ step < 1e-30:
            return theta
    return None
