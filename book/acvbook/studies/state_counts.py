"""Hidden Markov models simulated with a known number of states, and what every criterion scores.

Each is fitted with 1, 2, ... states from several starts. Each number of states is scored by
cross-validation on four schemes of folds, by AIC, BIC and ICL, and on a large fresh test set.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

import acvlib as acv
from acvlib.beyond.from_scratch import fit_restarts

from .state_models import EMISSIONS, Design, model_of, truth

N_EACH = 1  # simulated models of each design; intervals of 120 tell the criteria apart
N_FOLDS = 10
ORIGINS = np.arange(0.5, 1.0, 0.1)  # shares of a sequence from which on the future is left out
N_STARTS = 5
TEST = (20, 500)  # fresh sequences, and frames of each


class Scheme(NamedTuple):
    """Folds of a model's sites; one-step-ahead losses replace the model's own of the future."""

    model: Any
    folds: acv.Folds
    ahead: bool = False


def schemes(model: Any, rng: np.random.Generator) -> dict[str, Scheme]:
    """Random time points, odd against even ones, the future of all, and sequences."""
    n = model.n_sites
    found = {
        "within": Scheme(model, acv.folds.k_fold(n, N_FOLDS, rng)),
        "half": Scheme(model, acv.Folds([np.arange(0, n, 2), np.arange(1, n, 2)])),
        "future": Scheme(model, future(model), ahead=True),
    }
    if len(model.sequences) > 1:
        whole = replace(model, sites="sequences", sample_weight=1.0)
        found["sequence"] = Scheme(whole, acv.folds.leave_one_out(whole.n_sites))
    return found


def future(model: Any) -> acv.Folds:
    """From each origin on, the rest of all sequences is omitted, and the next tenth scored."""
    lengths = [len(x) for x in model.sequences]  # all alike
    starts = np.round(ORIGINS * lengths[0]).astype(int)
    horizon = lengths[0] // 10
    return acv.folds.leave_future_out(sum(lengths), starts, horizon, lengths=lengths)


class Rungs(NamedTuple):
    """By rung, summed losses of folds (n_folds,) and CPU seconds."""

    totals: dict[str, np.ndarray]
    seconds: dict[str, float]


def rungs(scheme: Scheme, fit: acv.Fit) -> Rungs:
    """Exact refits, the Newton step, and the Newton step with unreliable folds refitted.

    The exact refits are run in two parts, those that the check flags first: so both rungs' seconds
    are measured.
    """
    folds = scheme.folds
    fit = replace(fit, model=scheme.model)  # the same F, whose sites may be whole sequences
    began = time.thread_time()
    newton = acv.newton_step(fit, folds)
    newton_totals = _totals(scheme, newton)
    stepped = time.thread_time()
    flagged = acv.check_result(newton).unreliable
    checked_totals = newton_totals.copy()
    exact_totals = newton_totals.copy()
    marks = [time.thread_time()]
    for rows in (np.flatnonzero(flagged), np.flatnonzero(~flagged)):
        if len(rows):
            part = acv.exact(fit, folds[rows])
            exact_totals[rows] = _totals(scheme._replace(folds=folds[rows]), part)
        marks.append(time.thread_time())
    checked_totals[flagged] = exact_totals[flagged]
    return Rungs(
        totals={"newton": newton_totals, "checked": checked_totals, "exact": exact_totals},
        seconds={
            "newton": stepped - began,
            "checked": marks[1] - began,
            "exact": marks[2] - marks[0],
        },
    )


def _totals(scheme, result):
    """Summed losses of each fold; of the future, -log p(x_t | x_1 ... x_t-1) at its params."""
    if not scheme.ahead:
        return result.fold_totals
    found = np.empty(len(result.folds))
    for fold, (params, sites) in enumerate(zip(result.params, result.folds.scored, strict=True)):
        found[fold] = np.nan
        if np.isfinite(params).all():
            found[fold] = -scheme.model.predict(params).log_density[sites].sum()
    return found


# criteria


def information(model: Any, fit: acv.Fit) -> dict[str, float]:
    """AIC, BIC and ICL: lower is better; n counts frames, and ICL takes the most probable path.

    Source: Akaike (1974); Schwarz (1978); Biernacki, Celeux and Govaert (2000).
    """
    k = len(fit.params)
    log_n = np.log(len(model.frames.x))
    log_p = -model.sequence_losses(fit.params).sum()
    log_complete = model.decode(fit.params).log_p.sum()
    return {
        "aic": -2.0 * log_p + 2.0 * k,
        "bic": -2.0 * log_p + k * log_n,
        "icl": -2.0 * log_complete + k * log_n,
    }


class Drawn(NamedTuple):
    """Training and test sequences; seeds of the folds, the same for all candidates, and starts."""

    x: list[np.ndarray]
    test: list[np.ndarray]
    seeds: np.ndarray


def draw(design: Design, number: int, seed: int) -> Drawn:
    """One simulated model's data."""
    entry = [EMISSIONS.index(design.emission), *(int(10 * value) for value in design[1:])]
    rng = np.random.default_rng([seed, number, *entry])
    law = truth(design, rng)
    x = law.draw([design.n_frames // design.n_sequences] * design.n_sequences, rng)
    test = law.draw([TEST[1]] * TEST[0], rng)
    return Drawn(x, test, rng.integers(2**31, size=2))


def studies(design: Design, candidates: tuple[int, ...], n_each: int, seed: int) -> list[dict]:
    """`study` of so many simulated models of a design."""
    return [row for number in range(n_each) for row in study(design, candidates, number, seed)]


def study(design: Design, candidates: tuple[int, ...], number: int, seed: int) -> list[dict]:
    """One simulated model: a row for each candidate, with totals of folds, seconds and marks."""
    drawn = draw(design, number, seed)
    rows = []
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        for k in candidates:
            row = _row(model_of(design, drawn.x, k), drawn, number)
            rows.append({**design._asdict(), "number": number, "candidate": k, **row})
    return rows


def _row(model, drawn, number):
    began = time.thread_time()
    restarts = fit_restarts(model, N_STARTS, np.random.default_rng(drawn.seeds[1]))
    fit = restarts.fit
    fitted = time.thread_time()
    row = {
        "n_params": len(fit.params),
        "seconds_fit": fitted - began,
        "test": test_loss(model, fit, drawn),
        **information(model, fit),
    }
    row["seconds_information"] = time.thread_time() - fitted
    rng = np.random.default_rng(drawn.seeds[0])
    for name, scheme in schemes(model, rng).items():
        found = rungs(scheme, fit)
        sizes = np.array([len(sites) for sites in scheme.folds.scored])
        row |= {f"{name}_{rung}": totals for rung, totals in found.totals.items()}
        row |= {f"seconds_{name}_{rung}": value for rung, value in found.seconds.items()}
        row |= {f"sizes_{name}": sizes}
    return row


def test_loss(model: Any, fit: acv.Fit, drawn: Drawn) -> float:
    """-log p of the test sequences, a frame."""
    return float(model.sequence_losses(fit.params, drawn.test).sum() / np.prod(TEST))


# refits from scratch


def beside_scratch(design: Design, candidates: tuple[int, ...], seed: int) -> list[dict]:
    """A row for each candidate of a further simulated model: losses of ten random folds whose
    refits continue from the full fit, and of refits from starts that have not seen the fold.
    """
    drawn = draw(design, N_EACH, seed)
    shared = {**design._asdict(), "number": N_EACH}
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        return [{**shared, "candidate": k, **_both_ways(design, drawn, k)} for k in candidates]


def _both_ways(design, drawn, k):
    model = model_of(design, drawn.x, k)
    fit = fit_restarts(model, N_STARTS, np.random.default_rng(drawn.seeds[1])).fit
    folds = acv.folds.k_fold(model.n_sites, N_FOLDS, np.random.default_rng(drawn.seeds[0]))
    began = time.thread_time()
    continued = acv.exact(fit, folds)
    then = time.thread_time()
    scratch = acv.from_scratch(fit, folds, N_STARTS, drawn.seeds[1])
    seconds = time.thread_time() - then
    every = np.ones(model.n_sites)
    with_fold = [fit.derivatives.value_and_gradient(each, every)[0] for each in scratch.params]
    without, _ = fit.derivatives.fold_gradients(scratch.params, folds)
    return {
        "test": test_loss(model, fit, drawn),
        "continued": continued.fold_totals,
        "scratch": scratch.fold_totals,
        "joint": with_fold - without,  # -log p(all sites of a fold | the others)
        "sizes": folds.sizes,
        "seconds_continued": then - began,
        "seconds_scratch": seconds,
    }


def in_processes(rows_of: Callable, every: list[Design], *settings: Any) -> list[dict]:
    """The rows of rows_of(design, *settings) of all designs, in two processes if there are many."""
    shuffled = np.random.default_rng(0).permutation(len(every))  # parts are alike in time
    n_jobs = 2 if len(every) > 20 else 1  # few take less time than processes to start
    with Parallel(n_jobs=n_jobs) as pool:
        parts = pool(delayed(rows_of)(every[i], *settings) for i in shuffled)
    return [row for part in parts for row in part]
