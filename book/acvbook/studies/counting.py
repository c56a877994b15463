"""Work that is counted while it is done: marginalisations that the methods ask for, array
operations of autograd's tape; and Algorithm 1 of Ghosh et al. (2020) as it is printed.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import autograd.numpy as anp
import numpy as np
import pandas as pd
from autograd import grad, jacobian, tracer
from scipy.optimize import minimize

import acvlib as acv
from acvlib.inference import chain
from acvlib.models import PoissonTraffic
from acvlib.weighting import keep_latents

from . import traffic
from .ladders import timed

OF_ONE = ("value_and_gradient", "hessian", "cross_matrix")  # of one weighting
OF_FOLDS = ("fold_gradients", "fold_hessians", "heldout")  # of each fold


@contextmanager
def metered(derivatives: acv.Derivatives) -> Iterator[tuple[Counter, Counter]]:
    """Count how many weightings each method of some derivatives is called for, and its seconds."""
    calls, seconds = Counter(), Counter()

    def meter(name, method):
        def called(params, where, *args, **settings):
            calls[name] += len(where) if name in OF_FOLDS else 1
            tick = time.perf_counter()
            try:
                return method(params, where, *args, **settings)
            finally:
                seconds[name] += time.perf_counter() - tick

        return called

    for name in OF_ONE + OF_FOLDS:
        setattr(derivatives, name, meter(name, getattr(derivatives, name)))
    try:
        yield calls, seconds
    finally:
        for name in OF_ONE + OF_FOLDS:
            delattr(derivatives, name)


def marginalisations(model: Any, fit: acv.Fit, folds: acv.Folds) -> dict[str, int]:
    """How many the IJ needs, its Hessian included, and exact cross-validation; scoring aside."""
    derivatives = acv.derivatives_of(model)
    found = {}
    with metered(derivatives) as (calls, _):
        derivatives.hessian(fit.params, np.ones(model.n_sites))
        acv.infinitesimal_jackknife(fit, folds)
        found["IJ"] = calls.total() - calls["heldout"]
    with metered(derivatives) as (calls, _):
        acv.exact(fit, folds)
        found["exact"] = calls.total() - calls["heldout"]
    return found


def by_folds(model, fit, numbers, rng):
    """`marginalisations` of i.i.d. folds of 10 %, one row a number of folds."""
    rows = {
        n: marginalisations(model, fit, traffic.folds_of("iid", model, 10, n, rng)) for n in numbers
    }
    return pd.DataFrame(rows).T.rename_axis("folds")


@contextmanager
def taped() -> Iterator[Counter]:
    """Count the primitives that autograd computes, forwards and backwards.

    The plain arithmetic of the last backward pass is not among them.
    """
    count = Counter()
    look = tracer.find_top_boxed_args

    def counting(args):
        found = look(args)
        if not found[0]:  # nothing left to trace: the numbers themselves are computed
            count["operations"] += 1
        return found

    tracer.find_top_boxed_args = counting
    try:
        yield count
    finally:
        tracer.find_top_boxed_args = look


class Channels:
    """A two-state chain with R normal channels of variance 1: D = 2 R + 2 parameters, so that D can
    grow while T stays. x (T, R).
    """

    scheme = staticmethod(keep_latents)

    def __init__(self, x: np.ndarray):
        self.x, self.n_sites = x, len(x)

    def log_densities(self, params):
        means = params[2:].reshape(2, -1)
        return -0.5 * anp.sum((self.x[:, None] - means) ** 2, axis=2)

    def log_chain(self, params):
        stay = -anp.log1p(anp.exp(-params[:2]))
        leave = -anp.log1p(anp.exp(params[:2]))
        moves = anp.array([[stay[0], leave[0]], [leave[1], stay[1]]])
        return np.log([0.5, 0.5]), moves

    def log_prior(self, params):
        return -0.5 * anp.sum(params**2)


def tape_work(n_sites: int, n_channels: int, rng: np.random.Generator) -> dict[str, float]:
    """Operations of autograd on `Channels`: for one marginalisation with its gradient (G), H and J.

    In a loop over time each operation is on the few states of one step, so that their number is the
    work up to a constant.
    """
    loop = PythonLoop(Channels(rng.standard_normal((n_sites, n_channels))))
    params, ones = rng.standard_normal(2 + 2 * n_channels), np.ones(n_sites)
    derivatives = acv.Derivatives(loop)
    hessian = jacobian(grad(loop.objective))
    return {
        "T": n_sites,
        "D": len(params),
        "G": _taped(grad(loop.objective), params, ones),
        "H": _taped(hessian, params, ones),
        "J": _taped(derivatives.cross_matrix, params, ones),
    }


def _taped(function: Callable, *args: Any) -> int:
    with taped() as count:
        function(*args)
    return count["operations"]


def as_printed(params, inverted, cross, folds):
    """Line 4 of Algorithm 1, (n_folds, D): theta + the sum of H^-1 J_t over the fold's sites t."""
    return np.array([params + (inverted @ cross[:, fold]).sum(axis=1) for fold in folds])


@dataclass(frozen=True)
class PythonLoop:
    """The same objective as `model`, a hidden Markov model of this package, by Eq. 9."""

    model: object

    @property
    def n_sites(self):
        return self.model.n_sites

    def objective(self, params, weights):
        """F = -log p(x; params, weights) - log p(params); 10 microseconds of tape a site."""
        densities, log_chain = self.model.log_densities(params), self.model.log_chain(params)
        node, edge = chain.potentials(self.model.scheme, weights, densities, *log_chain)
        alpha = node[0]
        for t in range(1, self.n_sites):
            alpha = _logsumexp(alpha[:, None] + edge[t - 1]) + node[t]
        return -_logsumexp(alpha[:, None])[0] - self.model.log_prior(params)


def _logsumexp(table):
    peak = anp.max(table, axis=0)
    return peak + anp.log(anp.sum(anp.exp(table - peak), axis=0))


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
        with traffic.quiet(), metered(derivatives) as (_, seconds):
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
    loop = PythonLoop(model)
    derivatives, ones = acv.Derivatives(loop), np.ones(model.n_sites)

    def jackknife():
        hessian = np.asarray(derivatives.hessian(fit.params, ones))
        cross = derivatives.cross_matrix(fit.params, ones)
        return as_printed(fit.params, np.linalg.inv(hessian), cross, folds)

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
