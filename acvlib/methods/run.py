"""What every method does alike: check the folds, take the time, score the left-out sites, count."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..checks import warn
from ..folds import Folds
from ..model import Refits
from ..results import TOLERANCE, CVResult, Fit
from ..trials import FAILURES, UnconvergedFit, reasons


class Run:
    """One method on one fit: `Run(...)` starts the clock, `finish` scores each fold's params.

    lost: why folds that cannot be evaluated cannot, by number.
    """

    def __init__(self, method: str, fit: Fit, folds: Any):
        self.started = time.perf_counter()
        self.method = method
        self.fit = fit
        self.derivatives = fit.derivatives
        self.is_checked = isinstance(folds, Folds) and folds in fit.checked_folds
        self.folds = folds if self.is_checked else Folds.of(folds, fit.model)
        self.lost: dict[int, Exception] = {}
        if not fit.newton_decrement <= TOLERANCE:
            fit.warn_unconverged(method)

    def each(self, solve: Callable[[Folds], Refits]) -> Refits:
        """solve(folds); where that fails, of ever smaller parts: the params of lost folds are nan.

        Raises what `solve` raises of all folds where it raises of each.
        """
        try:
            if not self.is_checked:
                self.derivatives.defaults.check_folds(self.folds)
            refits = solve(self.folds)
        except FAILURES as error:
            return self._of_parts(solve, error)
        self.fit.checked_folds.add(self.folds)
        return refits

    def _of_parts(self, solve, first_error):
        """The halves of all folds, the halves of those halves that fail, and so on."""
        n_folds = len(self.folds)
        solved = Refits.unfinished(n_folds, len(self.fit.params))
        failing = [(0, n_folds, first_error)]
        while failing:
            start, stop, error = failing.pop()
            if stop - start == 1:
                self.lost[start] = error
                continue
            middle = (start + stop) // 2
            for part in (slice(start, middle), slice(middle, stop)):
                try:
                    self.derivatives.defaults.check_folds(self.folds[part])
                    solved.take(part, solve(self.folds[part]))
                except FAILURES as error:
                    failing.append((part.start, part.stop, error))
        if len(self.lost) == n_folds:
            raise first_error
        why = []
        for number, lost in sorted(self.lost.items()):
            says = f"{type(lost).__name__}: {lost}".replace("fold 0", f"fold {number}")
            why.append((f"fold {number}", says))
        count = f"the losses of {len(why)} of {n_folds} folds are nan"
        warn(f"{self.method}: {count}. {reasons(why)}", UnconvergedFit)
        return solved

    def finish(
        self,
        params: np.ndarray,
        evaluations: Mapping[str, int],
        indefinite: np.ndarray | None = None,
        **diagnostics: np.ndarray,
    ) -> CVResult:
        """The `CVResult` of params (D,) or (n_folds, D), with nan losses of the lost folds."""
        folds = self.folds
        n_folds = len(folds.omitted.sizes)
        if self.lost:
            rows = np.setdiff1d(np.arange(n_folds), list(self.lost))
            losses = [np.full(len(sites), np.nan) for sites in folds.scored]
            scored = self.derivatives.heldout(params[rows], folds[rows])
            for row, of_fold in zip(rows, scored, strict=True):
                losses[row] = of_fold
        else:
            losses = self.derivatives.heldout(params, folds)
        return CVResult(
            method=self.method,
            fit=self.fit,
            folds=folds,
            n_sites=self.derivatives.n_sites,
            params=params if params.ndim == 2 else np.tile(params, (n_folds, 1)),
            losses=losses,
            seconds=time.perf_counter() - self.started,
            evaluations=Counter({"heldout": n_folds - len(self.lost), **evaluations}),
            indefinite=indefinite,
            diagnostics=diagnostics,
        )
