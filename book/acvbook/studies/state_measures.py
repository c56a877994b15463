"""What the ledger has of the chapter on the number of states."""

from typing import Any, NamedTuple

import pandas as pd

from .states import INFORMATION, SCHEMES, Estimate, agreement, difference, mean, of, rate


class Measure(NamedTuple):
    """What the ledger has of a claim; baseline: the same number by the training likelihood."""

    own: Estimate
    baseline: Any = None


def of_choices(found: pd.DataFrame) -> dict[str, Measure]:
    """The rates and means of the chapter, by claim."""
    measured = {}
    for criterion in (*INFORMATION, *SCHEMES):
        own = of(found, criterion)
        measured[f"recovery.{criterion}"] = Measure(rate(own.right))
        measured[f"regret.{criterion}"] = Measure(mean(own.regret))
    within = of(found, "within")
    measured["recovery.onese"] = Measure(rate(within.simplest_right))
    measured["regret.onese"] = Measure(mean(within.simplest_regret))
    measured["within_half"] = _difference(found, "regret", "within", "half")
    training = of(found, "training").loc[within.index]
    gain = mean(within.simplest_right.astype(float) - within.right)
    none = mean(training.right.astype(float) - within.right)
    measured["onese_best"] = Measure(gain, none.value)
    near = found[found.separation == 1.5]
    for scheme in ("within", "future", "sequence"):
        measured[f"near.{scheme}"] = _difference(near, "regret", scheme, "bic")
    for scheme in SCHEMES:
        none = agreement(found, scheme, "training").value
        measured[f"same.{scheme}"] = Measure(agreement(found, scheme, "checked"), none)
        measured[f"plain.{scheme}"] = Measure(agreement(found, scheme, "newton"), none)
    return measured


def _difference(found, column, a, b):
    """`difference`, and that of the training data's choice from b, over the same models."""
    rows = of(found, a).index
    training = of(found, "training")[column].loc[rows].astype(float)
    none = mean(training - of(found, b)[column].loc[rows])
    return Measure(difference(found, column, a, b), none.value)


def of_scratch(table: pd.DataFrame) -> dict[str, Measure]:
    """What refits from scratch choose beside those that continue, by claim."""
    right = table.right_scratch.astype(float) - table.right_continued
    regret = table.regret_scratch - table.regret_continued
    none = mean(table.right_training.astype(float) - table.right_continued)
    worse = mean(table.regret_training - table.regret_continued)
    return {
        "scratch.continued": Measure(rate(table.right_continued)),
        "scratch.recovery": Measure(rate(table.right_scratch)),
        "scratch.onese": Measure(rate(table.onese_scratch)),
        "scratch.gain": Measure(mean(right), none.value),
        "scratch.regret": Measure(mean(regret), worse.value),
        "scratch.optimism.surplus": Measure(mean(table.optimism_surplus.dropna())),
        "scratch.optimism.true": Measure(mean(table.optimism_true)),
    }
