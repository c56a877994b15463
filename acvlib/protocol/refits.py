"""What refits give back."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Refits:
    """Where n refits ended, one entry a fold.

    params (n, D); decrement: the distance that was left, in standard errors; indefinite: whether
    the last Hessian was; steps; converged; residual: |gradient|; evaluations: what was computed.
    """

    params: np.ndarray
    decrement: np.ndarray
    indefinite: np.ndarray
    steps: np.ndarray
    converged: np.ndarray
    residual: np.ndarray
    evaluations: Counter = field(default_factory=Counter)

    @classmethod
    def at(cls, params: np.ndarray) -> "Refits":
        """Steps to params (n, D), of which nothing else is known."""
        n = len(params)
        return cls(
            params=params,
            decrement=np.full(n, np.inf),
            indefinite=np.zeros(n, bool),
            steps=np.zeros(n, int),
            converged=np.zeros(n, bool),
            residual=np.full(n, np.nan),
        )

    @classmethod
    def unfinished(cls, n: int, n_params: int) -> "Refits":
        """None of n refits yet: solvers write here as they go."""
        return cls.at(np.full((n, n_params), np.nan))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All but the evaluations, by name."""
        return {name: array for name, array in vars(self).items() if name != "evaluations"}

    def part(self, rows: slice) -> "Refits":
        """Those of some folds, in the same memory, with the same `evaluations`."""
        views = {name: array[rows] for name, array in self.arrays.items()}
        return Refits(**views, evaluations=self.evaluations)

    def take(self, rows: slice, refits: "Refits") -> None:
        """Write what others found of some folds."""
        for name, array in self.arrays.items():
            array[rows] = getattr(refits, name)
        self.evaluations.update(refits.evaluations)
