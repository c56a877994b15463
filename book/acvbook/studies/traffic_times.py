"""Table 2: seconds of every rung, with and without scoring, and the authors' way."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import acvlib as acv
from acvlib.models import PoissonTraffic

from . import counting, traffic
from .ladders import timed

SIZES = (5_000, 10_000, 50_400)


def timings(data, n_folds, repeats, rng, sizes=SIZES):
    """Seconds of every rung on folds of 10 %, `total` and `net` of scoring the left-out sites.

    One row a (size, kind, repeat, rung), folds drawn anew for each repeat.
    """
    rows = []
    for size in sizes:
        part = data.head(size)
        model = PoissonTraffic(part.counts, part.day)
        fit = acv.fit(model)
        traffic.ladder(model, fit, traffic.folds_of("iid", model, 10, 32, rng))  # compiles, once
        for repeat in range(repeats):
            for kind in traffic.KINDS:
                folds = traffic.folds_of(kind, model, 10, n_folds, rng)
                found = _timed(model, fit, folds)
                rows += [{"size": size, "kind": kind, "repeat": repeat, **row} for row in found]
    return pd.DataFrame(rows)


def _timed(model, fit, folds):
    derivatives = acv.derivatives_of(model)
    for name in (*traffic.METHODS, "exact"):
        method = getattr(acv, name)
        with traffic.quiet(), counting.metered(derivatives) as (_, seconds):
            result = method(fit, folds)
        total = result.seconds
        yield {"rung": name, "total": total, "net": total - seconds["heldout"]}


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Seconds over those of the IJ, both kinds together, one row a (size, repeat)."""
    seconds = table.groupby(["size", "repeat", "rung"])[["total", "net"]].sum().unstack("rung")
    columns = {}
    for rung, name in (("exact", "exact_over_ij"), ("newton_step", "ns_over_ij")):
        for which in ("total", "net"):
            columns[name, which] = seconds[which, rung] / seconds[which, "infinitesimal_jackknife"]
    return pd.DataFrame(columns)


def authors_way(model: Any, fit: acv.Fit, folds: acv.Folds) -> dict[str, float]:
    """Autograd over a Python loop: H, J and the IJ of all folds; of one fold a Newton step and a
    refit by L-BFGS from a cold start, times the folds.

    theta, theta_none: standard errors from the first fold's params and from the full fit's to those
    of our exact refit; ij_theta, ns_theta: largest distance of a fold's IJ, and the distance of the
    first fold's Newton step, from the library's.
    """
    loop = counting.PythonLoop(model)
    derivatives, ones = acv.Derivatives(loop), np.ones(model.n_sites)

    def jackknife():
        hessian = np.asarray(derivatives.hessian(fit.params, ones))
        cross = derivatives.cross_matrix(fit.params, ones)
        return counting.as_printed(fit.params, np.linalg.inv(hessian), cross, folds)

    ij, ij_seconds = timed(jackknife)
    weights = acv.folds.weights(model.n_sites, folds[0])

    def gradient(params):
        return derivatives.value_and_gradient(params, weights)

    def step():
        return derivatives.hessian(fit.params, weights).solve(gradient(fit.params)[1])

    start, settings = model.initial_params(), {"jac": True, "method": "L-BFGS-B"}
    refit, fold_seconds = timed(lambda: minimize(gradient, start, **settings))
    moved, step_seconds = timed(step)
    exact = acv.exact(fit, folds[:1]).params[0]
    ours = acv.infinitesimal_jackknife(fit, folds).params
    with traffic.quiet():
        ours_ns = acv.newton_step(fit, folds[:1]).params[0]
    return {
        "ij_seconds": ij_seconds,
        "exact_seconds": fold_seconds * len(folds),
        "gradients": refit.nfev,
        "exact_over_ij": fold_seconds * len(folds) / ij_seconds,
        "ns_over_ij": step_seconds * len(folds) / ij_seconds,
        "theta": float(fit.standard_errors_between(refit.x, exact)),
        "theta_none": float(fit.standard_errors_between(fit.params, exact)),
        "ns_theta": float(fit.standard_errors_between(fit.params - moved, ours_ns)),
        "ij_theta": float(fit.standard_errors_between(ij, ours).max()),
    }
