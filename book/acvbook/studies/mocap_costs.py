"""What Figure 6 costs: solves in units of one log p with gradient, and minutes and memory."""

import tracemalloc

import numpy as np
from joblib import parallel_config
from threadpoolctl import threadpool_limits

from acvlib.folds import leave_one_out
from acvlib.methods.newton_step import newton_step

from .ladders import seconds
from .mocap_orders import gradient_seconds


def minutes(studied):
    """Minutes that the fits and all their rungs took."""
    results = studied.values()
    rungs = sum(cv.seconds for result in results for cv in result.rungs.values())
    return (rungs + sum(result.fitted.seconds for result in results)) / 60.0


def newton_gigabytes(result):
    """(all, dense): the most memory that the Newton steps of all folds hold at a time, in
    gigabytes, as Python counts its arrays; and what one dense D x D Hessian takes.
    """
    model, full = result.fitted.model, result.fitted.fit
    tracemalloc.start()
    newton_step(full, leave_one_out(model.n_sites))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e9, 8 * model.n_params**2 / 1e9


def solves(result, repeats=5):
    """Seconds of all IJ and all NS solves to a relative residual of 1e-6, and both as ratios;
    one thread each.

    ij counts the gradients of all sequences and the solves; ns the fold gradients, blocks and
    solves. ij_in_gradients: over one log p with gradient. All are medians of `repeats`. `result` is
    a `mocap_orders.Orders`.
    """
    model, params = result.fitted.model, result.fitted.fit.params
    derivatives, folds = model.derivatives, leave_one_out(model.n_sites)

    def ij():
        hessian = derivatives.hessian(params, np.ones(model.n_sites))
        return hessian.solve(derivatives.cross(params, folds).T)

    def ns():
        _, gradients = derivatives.fold_gradients(params, folds, values=False)
        return derivatives.fold_hessians(params, folds).solve(gradients)

    with threadpool_limits(1), parallel_config("threading", n_jobs=1):
        unit = gradient_seconds(model, params, repeats)
        ij, ns = (float(np.median(seconds(solve, repeats))) for solve in (ij, ns))
    return {"gradient": unit, "ij": ij, "ns": ns, "ij_in_gradients": ij / unit, "ns_to_ij": ns / ij}


def largest_residual(result):
    """The largest relative residual of the IJ's folds, by accurate products."""
    model, full = result.fitted.model, result.fitted.fit
    ij = result.rungs["infinitesimal_jackknife"]
    b = model.derivatives.cross(full.params, ij.folds)
    left = b - (full.params - ij.params) @ full.hessian
    return float((np.linalg.norm(left, axis=1) / np.linalg.norm(b, axis=1)).max())
