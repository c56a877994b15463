"""Hidden Markov models simulated with a known number of states, and what every criterion scores.

Each is fitted with 1, 2, ... states from several starts. Each number of states is scored by
cross-validation on four schemes of folds, by AIC, BIC and ICL, and on a large fresh test set.
"""

import hashlib
import itertools
import pickle
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import brentq

import acvlib as acv
from acvlib.choice import SAME, fit_restarts
from acvlib.models import CategoricalHMM, GaussianHMM, PoissonHMM

EMISSIONS = ("gaussian", "poisson", "categorical")
N_CATEGORIES = 6
STAY = (0.8, 0.95)  # between which a state's probability to stay is drawn
N_FOLDS = 10
ORIGINS = np.arange(0.5, 1.0, 0.1)  # shares of a sequence from which on the future is left out
N_STARTS = 5
TEST = (20, 500)  # fresh sequences, and frames of each


class Design(NamedTuple):
    """What is simulated: separation is the distance of neighbouring states in standard deviations.

    That of Poisson and categorical states is the one of Gaussians with the same Hellinger distance.
    """

    emission: str
    n_states: int
    separation: float
    n_sequences: int
    n_frames: int


def designs(
    n_states: tuple = (1, 2, 3, 4),
    separations: tuple = (1.5, 2.5, 4.0),
    n_sequences: tuple = (1, 10),
    n_frames: tuple = (200, 400),
) -> list[Design]:
    """All combinations with all emissions; one state has no separation: it is 0."""
    every = itertools.product(EMISSIONS, n_states, separations, n_sequences, n_frames)
    rows = [Design(*row) for row in every]
    return list(dict.fromkeys(row._replace(separation=0.0) if row[1] == 1 else row for row in rows))


class Truth(NamedTuple):
    """transition (K, K), its rows cumulated; law: means, rates, or categories' p of each state."""

    emission: str
    transition: np.ndarray
    law: np.ndarray

    def draw(self, lengths: list[int], rng: np.random.Generator) -> list[np.ndarray]:
        """Sequences of these lengths; all first states are equally likely."""
        return [self._draw(self._path(length, rng), rng) for length in lengths]

    def _path(self, length, rng):
        draws = rng.random(length)
        k = len(self.transition)
        path = [int(rng.integers(k))]
        for draw in draws[1:]:
            path.append(int(np.searchsorted(self.transition[path[-1], :-1], draw)))
        return np.array(path)

    def _draw(self, path, rng):
        if self.emission == "gaussian":
            return rng.normal(self.law[path])
        if self.emission == "poisson":
            return rng.poisson(self.law[path]).astype(float)
        edges = np.cumsum(self.law, axis=1)[path, :-1]
        return (rng.random((len(path), 1)) > edges).sum(axis=1).astype(float)


def truth(design: Design, rng: np.random.Generator) -> Truth:
    """Draw transition probabilities; emissions are as far apart as the design says."""
    k = design.n_states
    stay = rng.uniform(*STAY, size=k)
    transition = np.repeat(((1.0 - stay) / max(k - 1, 1))[:, None], k, axis=1)
    transition[np.arange(k), np.arange(k)] = stay
    laws = {"gaussian": _means, "poisson": _rates, "categorical": _categories}
    law = laws[design.emission](k, design.separation)
    return Truth(design.emission, np.cumsum(transition, axis=1), law)


def _means(k, separation):
    return separation * np.arange(k)


def _rates(k, separation):
    """Roots half as far apart: sum_x sqrt(p q) = exp(-(sqrt(a) - sqrt(b))^2 / 2)."""
    return (np.sqrt(2.0) + 0.5 * separation * np.arange(k)) ** 2


def _categories(k, separation):
    """Each state prefers a category of its own, all others being equally likely."""

    def affinity(share):
        low = (1.0 - share) / N_CATEGORIES
        return 2.0 * np.sqrt(low * (low + share)) + (N_CATEGORIES - 2) * low

    share = brentq(lambda s: affinity(s) - np.exp(-(separation**2) / 8.0), 0.0, 1.0)
    return (1.0 - share) / N_CATEGORIES + share * np.eye(k, N_CATEGORIES)


def model_of(design: Design, x: list[np.ndarray], n_states: int) -> Any:
    """The candidate with so many states, under the library's default priors."""
    if design.emission == "gaussian":
        return GaussianHMM(x, n_states)
    if design.emission == "poisson":
        return PoissonHMM(x, n_states)
    return CategoricalHMM(x, n_states, N_CATEGORIES)


# folds


class Scheme(NamedTuple):
    """Folds of a model's sites; one-step-ahead losses replace the model's own of the future."""

    model: Any
    folds: acv.Folds
    ahead: bool = False


def schemes(model: Any, rng: np.random.Generator) -> dict[str, Scheme]:
    """Random time points, odd against even ones, sequences, and the future of all sequences."""
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
    place = np.concatenate([np.arange(len(x)) / len(x) for x in model.sequences])
    omitted = []
    scored = []
    for origin in ORIGINS:
        after = np.flatnonzero(place >= origin - 1e-9)
        omitted.append(after)
        scored.append(after[place[after] < origin + 0.1 - 1e-9])
    return acv.Folds(omitted, scored)


class Rungs(NamedTuple):
    """By rung, summed losses of folds (n_folds,) and CPU seconds; exact: params (n_folds, D)."""

    totals: dict[str, np.ndarray]
    seconds: dict[str, float]
    refitted: float
    unconverged: int
    exact: np.ndarray


def rungs(scheme: Scheme, fit: acv.Fit) -> Rungs:
    """Exact refits, the Newton step, and the Newton step with unreliable folds refitted.

    The exact refits are run in two parts, those that the check flags first: so both rungs' seconds
    are measured.
    """
    model, folds, _ = scheme
    began = time.thread_time()
    newton = acv.newton_step(model, fit, folds)
    newton_totals = _totals(scheme, newton)
    stepped = time.thread_time()
    flagged = acv.check_result(model, newton).unreliable | newton.indefinite
    checked_totals = newton_totals.copy()
    exact_totals = newton_totals.copy()
    marks = [time.thread_time()]
    params = newton.params.copy()
    unconverged = 0
    for rows in (np.flatnonzero(flagged), np.flatnonzero(~flagged)):
        if len(rows):
            part = acv.exact(model, fit, folds[rows])
            exact_totals[rows] = _totals(scheme._replace(folds=folds[rows]), part)
            params[rows] = part.params
            unconverged += int((~part.diagnostics["converged"]).sum())
        marks.append(time.thread_time())
    checked_totals[flagged] = exact_totals[flagged]
    return Rungs(
        totals={"newton": newton_totals, "checked": checked_totals, "exact": exact_totals},
        seconds={
            "newton": stepped - began,
            "checked": marks[1] - began,
            "exact": marks[2] - marks[0],
        },
        refitted=float(flagged.mean()),
        unconverged=unconverged,
        exact=params,
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


def study(design: Design, candidates: tuple[int, ...], number: int, seed: int) -> list[dict]:
    """One simulated model: a row for each candidate, with totals of folds, seconds and marks."""
    entry = [EMISSIONS.index(design.emission), *(int(10 * value) for value in design[1:])]
    rng = np.random.default_rng([seed, number, *entry])
    law = truth(design, rng)
    x = law.draw([design.n_frames // design.n_sequences] * design.n_sequences, rng)
    test = law.draw([TEST[1]] * TEST[0], rng)
    seeds = rng.integers(2**31, size=2)
    rows = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k in candidates:
            began = time.thread_time()
            model = model_of(design, x, k)
            row = _row(model, test, seeds, cold=number == 0)
            row["seconds_all"] = time.thread_time() - began
            rows.append({**design._asdict(), "number": number, "candidate": k, **row})
    return rows


def _row(model, test, seeds, cold):
    """seeds: of the folds, the same for all candidates, and of the starts."""
    began = time.thread_time()
    restarts = fit_restarts(model, N_STARTS, np.random.default_rng(seeds[1]))
    fit = restarts.fit
    fitted = time.thread_time()
    row = {
        "n_params": len(fit.params),
        "seconds_fit": fitted - began,
        "agreeing": restarts.agreeing,
        "first_start": bool(restarts.objectives[0] <= fit.objective + SAME),
        "decrement": fit.newton_decrement,
        "test": model.sequence_losses(fit.params, test).sum() / np.prod(TEST),
        **information(model, fit),
        "seconds_information": 0.0,
    }
    row["seconds_information"] = time.thread_time() - fitted
    for name, scheme in schemes(model, np.random.default_rng(seeds[0])).items():
        found = rungs(scheme, fit)
        sizes = np.array([len(sites) for sites in scheme.folds.scored])
        row |= {f"{name}_{rung}": totals for rung, totals in found.totals.items()}
        row |= {f"seconds_{name}_{rung}": value for rung, value in found.seconds.items()}
        row |= {f"sizes_{name}": sizes, f"refitted_{name}": found.refitted}
        row |= {f"unconverged_{name}": found.unconverged}
        if name == "within" and cold:
            row |= _cold(scheme, found)
    return row


def _cold(scheme, found):
    """Refit the first fold from scratch: how much lower its objective ends, and its loss."""
    model, folds, _ = scheme
    weights = acv.folds.weights(model.n_sites, folds[0])
    alone = replace(model, sample_weight=weights)
    refit = fit_restarts(alone, N_STARTS, np.random.default_rng(0)).fit
    here, _ = acv.derivatives_of(model).value_and_gradient(found.exact[0], weights)
    loss = np.sum(model.heldout_loss(refit.params, folds[0]))
    return {
        "cold_gain": here - refit.objective,
        "cold_loss": loss - found.totals["exact"][0],
    }


# all of them


def run(
    every: list[Design],
    candidates: tuple[int, ...],
    n_each: int,
    seed: int,
    folder: str | None = None,
) -> list[dict]:
    """`study` of n_each models of each design, in two processes.

    folder: where finished designs are kept, under the checksum of this file: a run that was stopped
    goes on from there.
    """
    shuffled = np.random.default_rng(seed).permutation(len(every))  # parts are alike in time
    jobs = [(every[i], candidates, n_each, seed, folder) for i in shuffled]
    with Parallel(n_jobs=2) as pool:
        parts = pool(delayed(_kept)(*job) for job in jobs)
    return [row for part in parts for row in part]


def _kept(design, candidates, n_each, seed, folder):
    if folder is None:
        return _design_rows(design, candidates, n_each, seed)
    source = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    name = "_".join(str(value) for value in (*design, len(candidates), n_each, seed, source))
    path = Path(folder, f"{name}.pickle")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = _design_rows(design, candidates, n_each, seed)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(pickle.dumps(rows))
        unfinished.rename(path)
    return pickle.loads(path.read_bytes())


def _design_rows(design, candidates, n_each, seed):
    return [row for number in range(n_each) for row in study(design, candidates, number, seed)]
