"""What every method does alike: check the folds, take the time, score the left-out sites, count."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..checks import warn
from ..folds import Folds
from ..model import Refits
from ..results import CVResult, Fit
from ..trials import FAILURES, UnconvergedFit, reasons


class Run:
    """One method on one fit: `Run(...)` starts the clock, `finish` scores each fold's params.

    lost: why folds that cannot be evaluated cannot, by number.
    """

    def __init__(self, method: str, fit: Fit, folds: Any, **settings: Any):
        self.started = time.perf_counter()
        self.method = method
        self.fit = fit
        self.settings = settings
        self.derivatives = fit.derivatives
        self.folds = Folds.of(folds, fit.model)
        self.lost: dict[int, Exception] = {}
        fit.warn_unconverged(method)

    def each(self, solve: Callable[[Folds], Refits]) -> Refits:
        """solve(folds); where that fails, of ever smaller parts: the params of lost folds are nan.

        Raises what `solve` raises of all folds where it raises of each.
        """
        n_folds = len(self.folds)
        solved: Refits | None = None
        errors: list[Exception] = []
        parts = [(0, n_folds)]
        while parts:
            start, stop = parts.pop()
            some = self.folds if stop - start == n_folds else self.folds[start:stop]
            try:
                self.derivatives.defaults.check_folds(some)
                refits = solve(some)
            except FAILURES as error:
                errors.append(error)
                middle = (start + stop) // 2
                if middle > start:
                    parts += [(start, middle), (middle, stop)]
                else:
                    self.lost[start] = error
            else:
                if not errors:
                    return refits
                solved = solved or Refits.unfinished(n_folds, len(self.fit.params))
                solved.take(slice(start, stop), refits)
        if solved is None:
            raise errors[0]
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
        n_folds = len(self.folds)
        rows = np.setdiff1d(np.arange(n_folds), list(self.lost))
        if self.lost:
            losses = [np.full(len(sites), np.nan) for sites in self.folds.scored]
            scored = self.derivatives.heldout(params[rows], self.folds[rows])
            for row, of_fold in zip(rows, scored, strict=True):
                losses[row] = of_fold
        else:
            losses = self.derivatives.heldout(params, self.folds)
        return CVResult(
            method=self.method,
            fit=self.fit,
            folds=self.folds,
            n_sites=self.derivatives.n_sites,
            params=params if params.ndim == 2 else np.tile(params, (n_folds, 1)),
            losses=losses,
            seconds=time.perf_counter() - self.started,
            evaluations=Counter({"heldout": len(rows), **evaluations}),
            indefinite=indefinite,
            diagnostics=diagnostics,
            settings=self.settings,
        )
