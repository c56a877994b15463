"""What Figure 6 costs: solves in units of one log p with gradient,
wall clock and memory of the whole.
"""

import resource
import time

import numpy as np
from joblib import parallel_config
from threadpoolctl import threadpool_limits

from acvlib import derivatives as curvature
from acvlib.folds import leave_one_out

from .mocap_orders import gradient_seconds, median_seconds


class Measured:
    """`with Measured() as m`: minutes of the block,
    and the most memory that the process ever held, in gigabytes.
    """

    def __enter__(self):
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.minutes = (time.perf_counter() - self.started) / 60.0
        self.peak_gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def solves(result, repeats=5):
    """Seconds of all IJ and all NS solves to a relative residual of 1e-6, and both as ratios;
    one thread each.

    ij counts the gradients of all sequences and the solves; ns the fold gradients, blocks and
    solves. ij_in_gradients: over one log p with gradient. All are medians of `repeats`. `result` is
    a `mocap_orders.Orders`.
    """
    model, full, folds = (
        result.fitted.model,
        result.fitted.fit,
        leave_one_out(result.fitted.model.n_sites),
    )
    with threadpool_limits(1), parallel_config("threading", n_jobs=1):
        unit = gradient_seconds(model, full.params, repeats)
        ij = median_seconds(lambda: curvature.jackknife_params(model, full, folds), repeats)
        ns = median_seconds(lambda: curvature.newton_params(model, full, folds), repeats)
    return {"gradient": unit, "ij": ij, "ns": ns, "ij_in_gradients": ij / unit, "ns_to_ij": ns / ij}


def largest_residual(result):
    """The largest |J (w_o - 1) - H (theta - theta_o)| / |J (w_o - 1)| over the IJ's folds,
    by accurate products.
    """
    model, full = result.fitted.model, result.fitted.fit
    ij = result.rungs["infinitesimal_jackknife"]
    b = model.fast.fold_cross(full.params, ij.folds)
    left = b - (full.params - ij.params) @ curvature.hessian_operator(model, full.params)
    return float((np.linalg.norm(left, axis=1) / np.linalg.norm(b, axis=1)).max())
