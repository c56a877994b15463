"""What every method does alike: check the folds, take the time, score the left-out sites, count."""

import time
from collections import Counter

import numpy as np

from .. import derivatives as curvature
from ..fit import TOLERANCE, warn_unconverged
from ..folds import validate
from ..protocol import CVResult


class Run:
    """One method on one model: `Run(...)` starts the clock, `finish` scores each fold's params."""

    def __init__(self, method, model, fit, folds, **settings):
        self.started = time.perf_counter()
        self.method, self.model, self.fit, self.settings = method, model, fit, settings
        self.folds = validate(folds, model.n_sites, getattr(model, "observed", None))
        if check := getattr(model, "check_folds", None):
            check(self.folds)
        warn_unconverged(fit, TOLERANCE, method, stacklevel=4)  # the line that called the method

    def start_params(self):
        """The full fit's params, one row a fold."""
        return np.tile(self.fit.params, (len(self.folds), 1))

    def finish(self, params, evaluations, pointwise=None, **diagnostics):
        """The `CVResult` of params (n_folds, D), scored here unless a method has done so; its seconds include that."""
        if pointwise is None:
            pointwise = curvature.heldout_losses(self.model, params, self.folds)
        counts = Counter(evaluations, heldout=len(self.folds))
        seconds = time.perf_counter() - self.started
        return CVResult(
            self.method,
            self.fit,
            self.folds,
            params,
            pointwise,
            seconds,
            counts,
            diagnostics,
            self.settings,
        )
