"""What each criterion chooses of the simulated models, how often rightly, and at what loss."""

from typing import Any

import numpy as np
import pandas as pd

from .. import ledger
from .state_counts import N_EACH, beside_scratch, in_processes, studies
from .state_models import Design, designs

INFORMATION = ("aic", "bic", "icl")
SCHEMES = ("within", "half", "future", "sequence")
RUNGS = ("newton", "checked", "exact")
NATS = 1000.0  # frames that a regret is of
LEVEL = 1.96  # standard errors to each side of a 95 % interval


def interval(values: Any) -> tuple[float, float, float]:
    """(mean, low, high) of a 95 % interval: of shares Wilson's (1927), else the normal one."""
    values = np.asarray(values)
    n, mean = len(values), float(values.mean())
    if values.dtype != bool:
        half = LEVEL * values.std(ddof=1) / np.sqrt(n)
        return mean, mean - half, mean + half
    shrink = 1.0 + LEVEL**2 / n
    centre = (mean + LEVEL**2 / (2 * n)) / shrink
    half = LEVEL * np.sqrt(mean * (1.0 - mean) / n + LEVEL**2 / (4 * n * n)) / shrink
    return mean, min(centre - half, mean), max(centre + half, mean)  # but for rounding, it is


def choices(rows: list[dict]) -> pd.DataFrame:
    """One row a simulated model and criterion: what it chose, its regret, its seconds.

    simplest, simplest_regret: by the one-standard-error rule, nan where there are no folds or two.
    """
    table = pd.DataFrame(rows)
    keys = [*Design._fields, "number"]
    found = []
    for key, models in table.groupby(keys, sort=False):
        shared = dict(zip(keys, key, strict=True))
        found += [{**shared, **choice} for choice in _choices(models.sort_values("candidate"))]
    found = pd.DataFrame(found)
    found["right"] = found.chosen == found.n_states
    found["simplest_right"] = found.simplest == found.n_states
    return found


def _choices(models):
    """The choices of all criteria for one simulated model, whose candidates are rows."""
    candidate = models.candidate.to_numpy()
    loss = models.test.to_numpy()
    regret = NATS * (loss - loss.min())
    scores = {"training": models.aic - 2.0 * models.n_params}
    scores |= {name: models[name] for name in INFORMATION}
    found = [(name, "", np.argmin(score), None, "information") for name, score in scores.items()]
    for name in SCHEMES:
        if f"sizes_{name}" not in models or models[f"sizes_{name}"].isna().any():
            continue
        sizes = models[f"sizes_{name}"].iloc[0]
        for rung in RUNGS:
            best, simplest = chosen(np.stack(list(models[f"{name}_{rung}"])), sizes)
            simplest = None if len(sizes) < 3 else simplest
            found.append((name, rung, best, simplest, f"{name}_{rung}"))
    for criterion, rung, best, simplest, timed in found:
        yield {
            "criterion": criterion,
            "rung": rung,
            "chosen": candidate[best],
            "regret": regret[best],
            "simplest": np.nan if simplest is None else candidate[simplest],
            "simplest_regret": np.nan if simplest is None else regret[simplest],
            "seconds": models[f"seconds_{timed}"].sum(),
            "seconds_fit": models.seconds_fit.sum(),
        }


def chosen(totals: np.ndarray, sizes: np.ndarray) -> tuple[int, int]:
    """The rows of totals (models, folds) with least sum, and the first within one standard error.

    The error is that of the paired difference over folds, `dse_paired` of `acv.compare_models`; a
    candidate whose losses are not finite is not chosen.
    """
    sums = np.where(np.isfinite(totals).all(axis=1), totals.sum(axis=1), np.inf)
    best = int(np.argmin(sums))
    with np.errstate(invalid="ignore"):
        gap = totals - totals[best]
        deviation = gap - sizes * (gap.sum(axis=1) / sizes.sum())[:, None]
        n = len(sizes)
        error = np.sqrt(n / (n - 1) * (deviation**2).sum(axis=1))
        close = sums - sums[best] <= error
    close[best] = True
    return best, int(np.argmax(close))


def of(found: pd.DataFrame, criterion: str, rung: str = "exact") -> pd.DataFrame:
    """The rows of one criterion, by simulated model."""
    rung = rung if criterion in SCHEMES else ""
    rows = found[(found.criterion == criterion) & (found.rung == rung)]
    return rows.set_index([*Design._fields, "number"])


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """One row a criterion and rung: recovery and regret with intervals, errors, seconds."""
    rows = {}
    for key, own in found.groupby(["criterion", "rung"], sort=False):
        rows[key] = {
            "models": len(own),
            "too_few": np.mean(own.chosen < own.n_states),
            "too_many": np.mean(own.chosen > own.n_states),
            "seconds": own.seconds.mean(),
            "seconds_fit": own.seconds_fit.mean(),
        }
        for name, values in (("recovery", own.right), ("regret", own.regret)):
            rows[key] |= zip((name, f"{name}_low", f"{name}_high"), interval(values), strict=True)
    return pd.DataFrame(rows).T.rename_axis(["criterion", "rung"])


def by_separation(found: pd.DataFrame) -> pd.DataFrame:
    """`summary` of exact refits and information criteria for each separation; 0: one state."""
    parts = {separation: main(summary(own)) for separation, own in found.groupby("separation")}
    return pd.concat(parts, names=["separation"]).swaplevel().sort_index()


def main(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `summary` without the approximate rungs, by criterion."""
    return table[table.index.get_level_values("rung").isin(["", "exact"])].droplevel("rung")


def of_choices(found: pd.DataFrame) -> dict[str, tuple]:
    """What the ledger has of the choices, by claim: a value a model, and the same of the choices by
    the likelihood of the training data, or None.
    """

    def less(table, column, a, b):
        own, other, idle = (of(table, name)[column].astype(float) for name in (a, b, "training"))
        return own - other.loc[own.index], (idle - other).loc[own.index]

    def same(*rung):
        exact = of(found, rung[0]).chosen
        return [of(found, *by).chosen.loc[exact.index] == exact for by in (rung, ("training",))]

    within, near = of(found, "within"), found[found.separation == 1.5]
    measured = {"recovery.onese": (within.simplest_right, None)}
    measured |= {"regret.onese": (within.simplest_regret, None)}
    for criterion in (*INFORMATION, *SCHEMES):
        own = of(found, criterion)
        measured[f"recovery.{criterion}"] = own.right, None
        measured[f"regret.{criterion}"] = own.regret, None
    idle = of(found, "training").right.loc[within.index].astype(float)
    gain = within.simplest_right.astype(float) - within.right
    measured["onese_best"] = gain, idle - within.right
    measured["within_half"] = less(found, "regret", "within", "half")
    for scheme in ("within", "future", "sequence"):
        measured[f"near.{scheme}"] = less(near, "regret", scheme, "bic")
    for scheme in SCHEMES:
        measured[f"same.{scheme}"] = same(scheme, "checked")
        measured[f"plain.{scheme}"] = same(scheme, "newton")
    return measured


def of_scratch(table: pd.DataFrame) -> dict[str, tuple]:
    """What refits from scratch choose beside those that continue, as `of_choices`."""
    right, regret = (table.filter(like=name).astype(float) for name in ("right_", "regret_"))
    right = right.sub(right.right_continued, axis=0)
    regret = regret.sub(regret.regret_continued, axis=0)
    return {
        "scratch.continued": (table.right_continued, None),
        "scratch.recovery": (table.right_scratch, None),
        "scratch.onese": (table.onese_scratch, None),
        "scratch.joint": (right.right_joint - right.right_scratch, None),
        "scratch.joint.regret": (regret.regret_joint - regret.regret_scratch, None),
        "scratch.gain": (right.right_scratch, right.right_training),
        "scratch.regret": (regret.regret_scratch, regret.regret_training),
        "scratch.optimism.surplus": (table.optimism_surplus.dropna(), None),
        "scratch.optimism.true": (table.optimism_true, None),
    }


def record(measured: dict[str, tuple]) -> None:
    """Record the mean of each with its interval, and that of the training data's choice."""
    for name, (values, idle) in measured.items():
        mean, *ends = interval(values)
        idle = idle if idle is None else float(np.mean(idle))
        about = {"baseline": idle, "draws": len(values), "spread": ends}
        ledger.record(f"beyond.states.{name}", mean, **about)


def simulated(paper: bool, seed: int) -> list[dict]:
    """The rows of `state_counts.study` at either scale."""
    if paper:
        return in_processes(studies, designs(), (1, 2, 3, 4, 5), N_EACH, seed)
    few = designs((1, 2), (1.5, 4.0), (1, 10), (200,))
    return in_processes(studies, few, (1, 2), 2, seed)


def from_scratch(paper: bool, seed: int) -> pd.DataFrame:
    """One row a further simulated model, of a third of the designs at paper scale: what folds
    choose continued and from scratch, at a price.

    right_, onese_, regret_, seconds_: of both, and by joint scores; optimism: how much lower losses
    are continued, in nats a fold, of the candidate with a state too many, and of the truth.
    """
    every = designs() if paper else designs((2,), (4.0,), (1,), (200,))
    if paper:
        third = np.random.default_rng(seed).permutation(len(every))[: len(every) // 3]
        every = [every[i] for i in np.sort(third)]
    candidates = (1, 2, 3, 4, 5) if paper else (1, 2, 3)
    rows = pd.DataFrame(in_processes(beside_scratch, every, candidates, seed))
    tables = rows.sort_values("candidate").groupby([*Design._fields, "number"], sort=False)
    return pd.DataFrame([_beside(models) for _, models in tables])


def _beside(models):
    n_states = models.n_states.iloc[0]
    regret = NATS * (models.test - models.test.min()).to_numpy()
    candidate = models.candidate.to_numpy()
    row = {name: models[name].sum() for name in ("seconds_continued", "seconds_scratch")}
    for way in ("continued", "scratch", "joint"):
        best, simplest = chosen(np.stack(list(models[way])), models.sizes.iloc[0])
        row |= {
            f"right_{way}": candidate[best] == n_states,
            f"onese_{way}": candidate[simplest] == n_states,
            f"regret_{way}": regret[best],
        }
    apart = [np.mean(a - b) for a, b in zip(models.scratch, models.continued, strict=True)]
    for name, k in (("optimism_true", n_states), ("optimism_surplus", n_states + 1)):
        row[name] = apart[k - 1] if k in candidate else np.nan
    return row | {"right_training": candidate[-1] == n_states, "regret_training": regret[-1]}
