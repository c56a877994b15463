"""Refits in parts, the same whoever computes them: a Dask cluster, or a run that goes on."""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from ..derivatives import derivatives_of
from ..folds import Folds
from ..parallel import from_cluster, pieces, track
from ..parallel.checkpoint import Checkpoint, digest
from ..protocol import Fit, Refits
from .run import Run

PARTS = 64  # for any number of workers, which thus changes no bit


def refit_in_parts(
    run: Run, refit: Callable, found: Refits, client: Any, checkpoint: str | PathLike | None
) -> Refits:
    """refit(derivatives, fit, folds, tolerance, found) for each part, written to `found`."""
    n_folds = len(run.folds)
    kept = _Kept(run, found, checkpoint)
    parts = pieces(n_folds, -(-n_folds // PARTS))
    parts = [part for part in parts if not kept.done[part].all()]
    model = run.derivatives.model
    settings = (refit, run.settings["tolerance"])
    try:
        if client is None:
            for part in track(parts, "exact"):
                kept.add(part, _refit(model, run.fit, run.folds[part], *settings))
        elif parts:
            shared = client.scatter([model, run.fit], broadcast=True, hash=False)
            tasks = [(_refit, *shared, run.folds[part], *settings) for part in parts]
            futures = [client.submit(*task, pure=False) for task in tasks]
            part_of = dict(zip(futures, parts, strict=True))
            from_cluster(client, futures, "exact", lambda it: kept.add(part_of[it], it.result()))
    finally:
        kept.save(now=True)
    return found


def _refit(model, fit: Fit, folds: Folds, refit, tolerance) -> Refits:
    unfinished = Refits.unfinished(len(folds), len(fit.params))
    return refit(derivatives_of(model), fit, folds, tolerance, unfinished)


class _Kept:
    """The refits of the parts that are done (n_folds,), and the checkpoint that has them."""

    def __init__(self, run, found, checkpoint):
        self.found = found
        self.arrays = {key: value for key, value in vars(found).items() if key != "evaluations"}
        self.done = np.zeros(len(run.folds), bool)
        self.arrays["done"] = self.done
        self.checkpoint = None
        if checkpoint is not None:
            self.checkpoint = Checkpoint(checkpoint, _work(run))
            for name, saved in self.checkpoint.load().items():
                self.arrays[name][:] = saved

    def add(self, part, refits):
        for name, array in self.arrays.items():
            array[part] = True if name == "done" else getattr(refits, name)
        self.found.evaluations.update(refits.evaluations)
        self.save()

    def save(self, now=False):
        if self.checkpoint:
            self.checkpoint.save(now, **self.arrays)


def _work(run):
    """What is computed, by checksums; a model is known by F and its gradient at random weights."""
    weights = np.random.default_rng(0).uniform(0.5, 1.0, run.derivatives.n_sites)
    value, gradient = run.derivatives.value_and_gradient(run.fit.params, weights)
    sets = run.folds.omitted, run.folds.scored
    sites = [np.concatenate(one) for one in sets]
    sizes = [[len(fold) for fold in one] for one in sets]
    return {
        "model or data": digest([type(run.derivatives.model).__name__, value, gradient]),
        "fit": digest([run.fit.params]),
        "set of folds": digest([*sites, *sizes]),
        "tolerance": digest([run.settings["tolerance"]]),
    }
