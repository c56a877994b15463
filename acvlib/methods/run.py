"""What every method does alike: check the folds, take the time, score the left-out sites, count."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ..checks import real_number, warn
from ..declared import declared
from ..derivatives import at
from ..fit import TOLERANCE, warn_unconverged
from ..folds import Folds
from ..model import Refits
from ..results import AFit, CVResult
from ..trials import FAILURES, UnconvergedFit, reasons


class IndefiniteFold(UserWarning):
    """Some folds have an indefinite Hessian: their Newton step need not descend."""


class Run:
    """One method on one fit: `Run(...)` starts the clock, `finish` scores each fold's params.

    lost: why folds that cannot be evaluated cannot, by number.
    """

    @declared
    def __init__(self, method: str, fit: AFit, folds: Any, **settings: Any):
        self.started = time.perf_counter()
        self.method = method
        self.fit = fit
        self.settings = settings
        self.damping = real_number("damping", settings.get("damping", 0.0), least=0.0)
        self.derivatives = fit.derivatives
        self.folds = Folds.of(folds, fit.model)
        self.lost: dict[int, Exception] = {}
        warn_unconverged(fit, TOLERANCE, method)

    def each(self, solve: Callable[[Folds], Refits]) -> Refits:
        """solve(folds); where that fails, of parts of them: the params of lost folds are nan.

        Raises what `solve` raises of all folds where it raises of each.
        """
        try:
            return self._checked(solve, self.folds)
        except FAILURES as error:
            found = self._parts(solve, 0, len(self.folds))
            if len(self.lost) == len(self.folds):
                raise error
        why = [
            (f"fold {n}", f"{type(error).__name__}: {error}".replace("fold 0", f"fold {n}"))
            for n, error in self.lost.items()
        ]
        lost = f"the losses of {len(why)} of {len(self.folds)} folds are nan"
        message = f"{self.method}: {lost}. {reasons(why)}"
        warn(message, UnconvergedFit)
        return found

    def _checked(self, solve, folds):
        self.derivatives.defaults.check_folds(folds)
        return solve(folds)

    def _parts(self, solve, start, stop):
        """Halve the folds until `solve` fails of one alone, which is lost."""
        n = stop - start
        found = Refits.unfinished(n, len(self.fit.params))
        cuts = [0, n // 2, n] if n > 1 else [0, 1]
        for low, high in pairwise(cuts):
            try:
                part = self._checked(solve, self.folds[start + low : start + high])
            except FAILURES as error:
                if high - low == 1:
                    self.lost[start + low] = error
                    continue
                part = self._parts(solve, start + low, start + high)
            found.take(slice(low, high), part)
        return found

    def finish(
        self,
        params: np.ndarray,
        evaluations: Mapping[str, int],
        indefinite: np.ndarray | None = None,
        **diagnostics: np.ndarray,
    ) -> CVResult:
        """The `CVResult` of params (D,) or (n_folds, D), with nan losses of the lost folds."""
        rows = np.setdiff1d(np.arange(len(self.folds)), list(self.lost))
        if self.lost:
            losses = [np.full(len(sites), np.nan) for sites in self.folds.scored]
            scored = self.derivatives.heldout(at(params, rows), self.folds[rows])
            for row, of_fold in zip(rows, scored, strict=True):
                losses[row] = of_fold
        else:
            losses = self.derivatives.heldout(params, self.folds)
        return CVResult(
            method=self.method,
            fit=self.fit,
            folds=self.folds,
            n_sites=self.derivatives.n_sites,
            params=params if params.ndim == 2 else np.tile(params, (len(self.folds), 1)),
            losses=losses,
            seconds=time.perf_counter() - self.started,
            evaluations=Counter({"heldout": len(rows), **evaluations}),
            indefinite=indefinite,
            diagnostics=diagnostics,
            settings=self.settings,
        )


def warn_indefinite(indefinite: np.ndarray) -> None:
    """Warn once of folds whose Hessian (n_folds,) is indefinite."""
    if indefinite.any():
        count = f"{indefinite.sum()} of {len(indefinite)} folds have an indefinite Hessian"
        first = f"(first: fold {np.argmax(indefinite)})"
        remedy = "use exact() for them, or pass damping"
        warn(f"{count} {first}: {remedy}", IndefiniteFold)
