"""Which data decide: the one-shot answer, the greedy one and what refits say."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.beyond.any_k import proved
from acvlib.models import GLM, HiddenMRF, PoissonTraffic

METHODS = ("one_shot", "greedy")


class Setting(NamedTuple):
    """A conclusion phi of a fitted model, and how many sites may go."""

    data: str
    conclusion: str
    k: int
    model: Any
    fit: acv.Fit
    phi: Callable


def regression(rng: np.random.Generator, n: int = 10_000) -> Setting:
    """A twin of zaminfluence's example: three regressors, slopes of up to .1, unit noise."""
    slopes = 0.1 * rng.random(3)
    X = rng.standard_normal((n, 3))
    y = X @ slopes + rng.standard_normal(n)
    model = GLM(X, y, "gaussian", intercept=False)
    fit = acv.fit(model)
    sign = -np.sign(fit.params[0])
    return Setting("regression", "sign of slope 1", 1, model, fit, lambda p: sign * p[0])


def flips(setting: Setting, rng: np.random.Generator) -> pd.Series:
    """Fewest rows whose psi add up to a change of sign; and what refits without them say."""
    model, fit, phi = setting[-3:]
    first = acv.most_influential(fit, phi, 1, verify=False)
    reach = np.cumsum(np.sort(first.psi)[::-1])
    k = int(np.argmax(reach > -first.phi)) + 1
    found = acv.most_influential(fit, phi, k)
    random = acv.Folds([rng.choice(model.n_sites, k, replace=False)])
    left, at_random = found.phi + found.exact, phi(acv.exact(fit, random).params[0])
    row = {"slope": -found.phi, "standard_error": found.standard_error, "rows_left_out": k}
    row |= {"predicted": -(found.phi + found.linear), "refitted": -left}
    return pd.Series(row | {"flipped": left > 0.0, "flipped_at_random": at_random > 0.0})


def traffic_settings(data: Any, sizes: tuple[int, ...]) -> Iterator[Setting]:
    """What decides when day begins and ends, how much more traffic it brings, and Sunday's rate."""
    model = PoissonTraffic(data.counts, data.day)
    fit = acv.fit(model)
    conclusions = {"night goes on": lambda p: p[9], "day goes on": lambda p: p[10]}
    conclusions |= {"mean excess": lambda p: p[7] - p[8], "Sunday rate": lambda p: p[0]}
    yield from _settings("traffic", model, fit, conclusions, sizes)


def map_settings(data: Any, coupling: float, sizes: tuple[int, ...]) -> Iterator[Setting]:
    """Which tracts decide the low rate, the high rate and their ratio."""
    model = HiddenMRF(data.counts, data.edges, coupling)
    conclusions = {"low rate": lambda p: p[0], "high rate": lambda p: p[1]}
    conclusions |= {"ratio": lambda p: p[1] - p[0]}
    yield from _settings("map", model, acv.fit(model), conclusions, sizes)


def _settings(data, model, fit, conclusions, sizes):
    for name, phi in conclusions.items():
        for k in sizes:
            yield Setting(data, f"{name} up", k, model, fit, phi)
            yield Setting(data, f"{name} down", k, model, fit, lambda p, phi=phi: -phi(p))


def effects(setting: Setting, n_random: int, rng: np.random.Generator) -> dict:
    """Changes of phi in its standard errors: predicted, by a Newton step, by refits, at random."""
    row = {"data": setting.data, "conclusion": setting.conclusion, "k": setting.k}
    for method in METHODS:
        found = acv.most_influential(setting.fit, setting.phi, setting.k, method)
        for name in ("linear", "newton", "exact"):
            row[f"{method}_{name}"] = getattr(found, name) / found.standard_error
    sites = np.flatnonzero(~np.isnan(found.psi))
    random = acv.Folds([rng.choice(sites, setting.k, replace=False) for _ in range(n_random)])
    params = acv.exact(setting.fit, random).params
    changes = np.array([setting.phi(point) for point in params]) - found.phi
    row["random"] = np.median(changes) / found.standard_error
    return row


def table(settings: list[Setting], n_random: int, rng: np.random.Generator) -> pd.DataFrame:
    """`effects` of every setting, one row each."""
    rows = [effects(setting, n_random, rng) for setting in settings]
    return pd.DataFrame(rows).set_index(["data", "conclusion", "k"])


def shares(found: pd.DataFrame) -> pd.Series:
    """In what share of the settings greedy, or a random set, is at least as good as one-shot."""
    slack = 1e-6  # standard errors: what refits leave open
    one_shot = found.one_shot_exact
    rivals = {"greedy": found.greedy_exact, "random": found.random}
    row = {name: np.mean(effect >= one_shot - slack) for name, effect in rivals.items()}
    row["misled_traffic"] = _factor(found.loc["traffic"], "one_shot")
    row["misled_traffic_greedy"] = _factor(found.loc["traffic"], "greedy")
    row["misled_map"] = _factor(found.loc["map"], "one_shot")
    return pd.Series(row | {"gain": (found.greedy_exact / one_shot).median()})


def _factor(found, method):
    """The median factor, of either direction, between what was predicted and what a refit says."""
    ratio = found[f"{method}_exact"] / found[f"{method}_linear"]
    return np.exp(np.abs(np.log(ratio)).median())


def wages(rng: np.random.Generator, n: int = 4000, family: str = "logistic") -> Any:
    """A fit of a yes or no, or of counts, on five skewed and related regressors, ridge 1."""
    common = rng.standard_normal((n, 1))
    X = 0.5 * common + rng.standard_normal((n, 5))
    X[:, :2] = np.exp(0.5 * X[:, :2])
    z = X @ [0.4, -0.3, 0.5, 0.2, 0.05] - 0.5
    y = rng.poisson(np.exp(z)) if family == "poisson" else rng.random(n) < 1 / (1 + np.exp(-z))
    return acv.fit(GLM(X, y, family, penalty=1.0))


def proofs(rng: np.random.Generator, n_draws: int) -> pd.DataFrame:
    """What is attained, what is proved and in how many seconds, of n_draws `wages`; a row each."""
    rows = []
    for family, sizes in {"logistic": (10, 50), "poisson": (10,)}.items():
        fits = [wages(own, family=family) for own in rng.spawn(n_draws)]
        rows += [_proof(family, fit, k) for fit in fits for k in sizes]
    return pd.DataFrame(rows)


def breast_cancer(most: int) -> tuple[Any, pd.DataFrame]:
    """(a fit of scikit-learn's data at ridge 1, the same of its first slope, by k)."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    fit = acv.fit(GLM((X - X.mean(axis=0)) / X.std(axis=0), y, "logistic", penalty=1.0))
    return fit, pd.DataFrame([_proof("breast cancer", fit, k) for k in range(1, most + 1)])


def weakest(fit: Any) -> int:
    """Which of params is the slope with the fewest standard errors."""
    errors = np.sqrt(np.diag(fit.hessian.solve(np.eye(len(fit.params)))))
    return 1 + int(np.argmin(np.abs(fit.params / errors)[1:]))


def attacks(rng: np.random.Generator, n_draws: int) -> pd.DataFrame:
    """Proofs from zero of what 2 to 5 of 400 rows can do, and refits of sets, improved by swaps."""
    pairs = [(family, own) for family in ("logistic", "poisson") for own in rng.spawn(n_draws)]
    return pd.DataFrame([_attack(*pair) for pair in pairs])


def _attack(family, rng, rounds=10):
    fit, k, c = wages(rng, 400, family), int(rng.integers(2, 6)), rng.standard_normal(6)
    bound, *_ = proved(fit, c, k, 0.0)
    starts = [acv.most_influential(fit, lambda p: p @ c, k, method) for method in METHODS]
    sets, best, changes = [start.sites for start in starts], starts[0].sites, []
    for _ in range(rounds):
        effects = (acv.exact(fit, acv.Folds(sets), tolerance=1e-10).params - fit.params) @ c
        best = sets[np.argmax(effects)] if effects.max() > max(changes, default=0.0) else best
        changes += effects.tolist()
        others = rng.permutation(np.setdiff1d(np.argsort(-starts[0].psi)[:60], best))
        sets = [np.append(np.delete(best, i % k), row) for i, row in enumerate(others)]
    most = {"beyond": bound, "beyond_linear": starts[0].linear}  # and what refits leave open
    row = {name: np.sum(np.array(changes) > (1.0 + 1e-9) * top) for name, top in most.items()}
    return row | {"data": family, "proved": bound < np.inf, "tried": len(changes)}


def _proof(data, fit, k):
    started = time.process_time()
    found = acv.most_influential(fit, lambda p: p[1], k, "greedy", certify=True)
    seconds = time.process_time() - started
    attained, bound = found.exact / found.standard_error, found.bound / found.standard_error
    sizes = {"data": data, "k": k, "attained": attained, "bound": bound}
    return sizes | {"ratio": bound / attained, "seconds": seconds}
