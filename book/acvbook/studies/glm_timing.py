"""Figure 2 of Giordano et al. (2019): seconds of the jackknife and of exact leave-one-out,
all folds of both.
"""

import time

import pandas as pd

from acvlib.fit import fit
from acvlib.folds import leave_one_out
from acvlib.methods.exact import exact
from acvlib.methods.jackknife import infinitesimal_jackknife
from acvlib.methods.newton_step import newton_step
from acvlib.models import GLM

from .glm_errors import truth


def figure2(sizes, dim, rng):
    """A row for each size: seconds of one fit and of each rung's leave-one-out;
    every exact fold converged.

    ratio: exact over IJ, both after the fit; with_fit: the same with the fit counted in both.
    """
    source = truth("logistic", dim, rng)
    _times(
        GLM(*source.draw(20 * dim, rng))
    )  # so that no timing includes a first import or allocation
    table = pd.DataFrame(
        [_times(GLM(*source.draw(n, rng))) for n in sizes], index=pd.Index(sizes, name="n")
    )
    return table.assign(
        ratio=table.exact / table.ij, with_fit=(table.fit + table.exact) / (table.fit + table.ij)
    )


def _times(model):
    """Least of five times, of which other work on the machine spoils some; exact once,
    or five times if short.
    """
    folds, short = leave_one_out(model.n_sites), model.n_sites <= 2500
    seconds, full = _least(lambda: fit(model), 5)
    times = {"fit": seconds}
    for name, rung in {"ij": infinitesimal_jackknife, "ns": newton_step, "exact": exact}.items():
        repeats = 5 if short or rung is not exact else 1
        times[name], result = _least(lambda rung=rung: rung(model, full, folds), repeats)
    return times | {"unconverged": int((~result.diagnostics["converged"]).sum())}


def _least(function, repeats):
    """(least seconds, last result) of several calls."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - started)
    return min(seconds), result
