"""Refits of all folds from the full fit: at once, or in parts that a cluster or a file may have."""

from os import PathLike
from typing import Any

import numpy as np

from ..derivatives import Derivatives, at, kept_share
from ..folds import WHOLE, Folds
from ..folds.checks import end_to_end
from ..parallel import from_cluster, pieces, track
from ..parallel.checkpoint import Checkpoint, digest
from ..protocol import Fit, Refits
from ..solvers.inverse import SameForAll
from ..solvers.newton import newton
from ..solvers.newton_cg import newton_cg
from .run import Run

PARTS = 64  # for any number of workers, which thus changes no bit
SETTLED = 1e-4  # standard errors from the optimum within which all folds may start


def refit_folds(
    derivatives: Derivatives,
    fit: Fit,
    folds: Folds,
    tolerance: float,
    found: Refits,
    starts: np.ndarray | None = None,
) -> None:
    """Write every fold's own optimum to `found`, by the solver that suits the model.

    starts: (n_folds, D) near the optima, in place of the fit's params.
    """
    own = derivatives.refits(fit.params, folds, tolerance)
    if own is not None:
        found.take(slice(None), own)
    elif derivatives.matrix_free:
        start = _descended(derivatives, fit, folds) if starts is None else starts
        newton_cg(derivatives, start, folds, tolerance, found=found)
    else:
        start = _start(derivatives, fit) if starts is None else starts
        for part in derivatives.portions(folds, len(fit.params)):
            first = _first(derivatives, fit, folds[part])
            newton(derivatives, at(start, part), folds[part], tolerance, first, found.part(part))


def _first(derivatives, fit, folds):
    """The full fit's Hessian for all folds, unless they need their own from the first step on."""
    if derivatives.hessians_first or fit.hessian.indefinite:
        return None
    return SameForAll(fit.hessian, kept_share(derivatives.model, folds))


def _start(derivatives, fit):
    """The fit's params; the optimum of all data where these are not close to it and F is convex."""
    if not derivatives.defaults.convex or fit.newton_decrement <= SETTLED:
        return fit.params
    return newton(derivatives, fit.params, WHOLE, SETTLED).params[0]


def _descended(derivatives, fit, folds):
    """Each fold's Newton step, in which all folds share work, where it descends; else the fit."""
    before, gradients = derivatives.fold_gradients(fit.params, folds)
    moved = fit.params - derivatives.fold_hessians(fit.params, folds).solve(gradients)
    after, _ = derivatives.fold_gradients(moved, folds)
    return np.where((after < before)[:, None], moved, fit.params)


def refit_in_parts(run: Run, found: Refits, client: Any, checkpoint: str | PathLike | None) -> None:
    """`refit_folds` part by part, the same whoever computes them; written to `found`."""
    n_folds = len(run.folds)
    kept = _Kept(run, found, checkpoint)
    parts = pieces(n_folds, -(-n_folds // PARTS))
    parts = [part for part in parts if not kept.done[part].all()]
    tolerance = run.settings["tolerance"]
    try:
        if client is None:
            for part in track(parts, "exact"):
                kept.add(part, _refit(run.fit, run.folds[part], tolerance))
        elif parts:
            shared = client.scatter(run.fit, broadcast=True, hash=False)
            tasks = [(_refit, shared, run.folds[part], tolerance) for part in parts]
            futures = [client.submit(*task, pure=False) for task in tasks]
            part_of = dict(zip(futures, parts, strict=True))
            from_cluster(client, futures, "exact", lambda it: kept.add(part_of[it], it.result()))
    finally:
        kept.save(now=True)


def _refit(fit, folds, tolerance):
    found = Refits.unfinished(len(folds), len(fit.params))
    refit_folds(fit.derivatives, fit, folds, tolerance, found)
    return found


class _Kept:
    """The refits of the parts that are done (n_folds,), and the checkpoint that has them."""

    def __init__(self, run, found, checkpoint):
        self.found = found
        self.done = np.zeros(len(run.folds), bool)
        self.arrays = found.arrays | {"done": self.done}
        self.checkpoint = None
        if checkpoint is not None:
            self.checkpoint = Checkpoint(checkpoint, _work(run))
            for name, saved in self.checkpoint.load().items():
                self.arrays[name][:] = saved

    def add(self, part, refits):
        self.found.take(part, refits)
        self.done[part] = True
        self.save()

    def save(self, now=False):
        if self.checkpoint:
            self.checkpoint.save(now, **self.arrays)


def _work(run):
    """What is computed, by checksums; a model is known by F and its gradient at random weights."""
    weights = np.random.default_rng(0).uniform(0.5, 1.0, run.derivatives.n_sites)
    value, gradient = run.derivatives.value_and_gradient(run.fit.params, weights)
    omitted = end_to_end(run.folds.omitted)
    scored = end_to_end(run.folds.scored)
    return {
        "model or data": digest([type(run.derivatives.model).__name__, value, gradient]),
        "fit": digest([run.fit.params]),
        "set of folds": digest([omitted.sites, scored.sites, omitted.sizes, scored.sizes]),
        "tolerance": digest([run.settings["tolerance"]]),
    }
