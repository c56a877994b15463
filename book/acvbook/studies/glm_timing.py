"""Figure 2 of Giordano et al. (2019): seconds of the jackknife and of exact leave-one-out,
all folds of both.

At N = 10 and 100 there are fewer rows than parameters, where logistic regression has an optimum
only with a penalty: it has one, of PENALTY, at all sizes.
"""

import time

import numpy as np
import pandas as pd

from acvlib.fit import fit
from acvlib.folds import leave_one_out
from acvlib.methods.exact import exact
from acvlib.methods.jackknife import infinitesimal_jackknife
from acvlib.methods.newton_step import newton_step
from acvlib.models import GLM

from .glm_errors import truth

PENALTY = 1.0


def figure2(sizes, dim, n_draws, rng, often=10_000):
    """A row for each draw and size: seconds of one fit and of each rung's leave-one-out;
    every exact fold converged. Sizes above `often` are in the first draw only.

    ratio: exact over IJ, both after the fit; with_fit: the same with the fit counted in both.
    """
    source = truth("logistic", dim, rng)
    _times(_model(source, 20 * dim, rng))  # so that no timing includes a first import
    cells = [(draw, n) for draw in range(n_draws) for n in sizes if n <= often or draw == 0]
    rows = [{"draw": draw, "n": n} | _times(_model(source, n, rng)) for draw, n in cells]
    table = pd.DataFrame(rows)
    return table.assign(
        ratio=table.exact / table.ij, with_fit=(table.fit + table.exact) / (table.fit + table.ij)
    )


def beside(seconds, authors):
    """Medians over draws by n, and the authors' ratio; theirs is nearest to `with_fit`."""
    table = seconds.drop(columns="draw").groupby("n").median()
    if authors is None:
        return table
    return table.assign(authors=authors.exact / authors.ij)


def growth(seconds, column="ratio"):
    """The slope of log column on log n in each draw, over the sizes that all draws have."""
    counts = seconds.groupby("n").draw.nunique()
    rows = seconds[seconds.n.map(counts) == seconds.draw.nunique()]
    return [np.polyfit(np.log(of.n), np.log(of[column]), 1)[0] for _, of in rows.groupby("draw")]


def _model(source, n, rng):
    """A data set with two labels of each kind at least: one class alone has no optimum."""
    x, y = source.draw(n, rng)
    while min(y.sum(), n - y.sum()) < 2:
        x, y = source.draw(n, rng)
    return GLM(x, y, penalty=PENALTY)


def _times(model):
    """Least of five times, of which other work on the machine spoils some; exact once,
    or five times if short.
    """
    folds, short = leave_one_out(model.n_sites), model.n_sites <= 2500
    seconds, full = _least(lambda: fit(model), 5)
    times = {"fit": seconds}
    for name, rung in {"ij": infinitesimal_jackknife, "ns": newton_step, "exact": exact}.items():
        repeats = 5 if short or rung is not exact else 1
        times[name], result = _least(lambda rung=rung: rung(full, folds), repeats)
    return times | {"unconverged": int((~result.diagnostics["converged"]).sum())}


def _least(function, repeats):
    """(least seconds, last result) of several calls."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - started)
    return min(seconds), result
