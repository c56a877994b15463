"""What a fold brings along from the full fit: refits from scratch beside those that continue."""

import time
import warnings

import numpy as np

import acvlib as acv
from acvlib.beyond.from_scratch import fit_restarts

from .state_counts import N_FOLDS, N_STARTS, Drawn, draw, in_processes, test_loss
from .state_models import Design, model_of


def rows_of(
    design: Design, candidates: tuple[int, ...], numbers: tuple[int, ...], seed: int
) -> list[dict]:
    """A row for each candidate of each simulated model: losses of ten random folds, both ways."""
    rows = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in numbers:
            drawn = draw(design, number, seed)
            shared = {**design._asdict(), "number": number}
            rows += [{**shared, **_row(design, drawn, k)} for k in candidates]
    return rows


def _row(design, drawn: Drawn, k):
    model = model_of(design, drawn.x, k)
    fit = fit_restarts(model, N_STARTS, np.random.default_rng(drawn.seeds[1])).fit
    folds = acv.folds.k_fold(model.n_sites, N_FOLDS, np.random.default_rng(drawn.seeds[0]))
    began = time.thread_time()
    continued = acv.exact(fit, folds)
    then = time.thread_time()
    scratch = acv.from_scratch(fit, folds, N_STARTS, drawn.seeds[1])
    return {
        "candidate": k,
        "test": test_loss(model, fit, drawn),
        "continued": continued.fold_totals,
        "scratch": scratch.fold_totals,
        "sizes": folds.sizes,
        "seconds_continued": then - began,
        "seconds_scratch": time.thread_time() - then,
    }


def run(
    designs: list[Design],
    candidates: tuple[int, ...],
    numbers: tuple[int, ...],
    seed: int,
    folder: str | None = None,
) -> list[dict]:
    """`rows_of` all designs, in processes and kept as by `state_counts.run`."""
    return in_processes(rows_of, designs, (candidates, numbers, seed), folder)
