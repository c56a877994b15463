"""What every method does alike: check the folds, take the time, score the left-out sites, count."""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..checks import real_number, warn
from ..declared import declared
from ..fit import TOLERANCE, warn_unconverged
from ..folds import Folds
from ..results import AFit, CVResult


class IndefiniteFold(UserWarning):
    """Some folds have an indefinite Hessian: their Newton step need not descend."""


class Run:
    """One method on one fit: `Run(...)` starts the clock, `finish` scores each fold's params."""

    @declared
    def __init__(self, method: str, fit: AFit, folds: Any, **settings: Any):
        self.started = time.perf_counter()
        self.method = method
        self.fit = fit
        self.settings = settings
        self.damping = real_number("damping", settings.get("damping", 0.0), least=0.0)
        self.derivatives = fit.derivatives
        self.folds = Folds.of(folds, fit.model)
        self.derivatives.defaults.check_folds(self.folds)
        warn_unconverged(fit, TOLERANCE, method)

    def finish(
        self,
        params: np.ndarray,
        evaluations: Mapping[str, int],
        indefinite: np.ndarray | None = None,
        losses: Any = None,
        **diagnostics: np.ndarray,
    ) -> CVResult:
        """The `CVResult` of params (D,) or (n_folds, D), scored here unless losses are given."""
        if losses is None:
            losses = self.derivatives.heldout(params, self.folds)
        return CVResult(
            method=self.method,
            fit=self.fit,
            folds=self.folds,
            n_sites=self.derivatives.n_sites,
            params=params if params.ndim == 2 else np.tile(params, (len(self.folds), 1)),
            losses=losses,
            seconds=time.perf_counter() - self.started,
            evaluations=Counter({"heldout": len(self.folds), **evaluations}),
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
