"""Figure 2 of Giordano et al. (2019): seconds of the jackknife and of exact leave-one-out,
all folds of both.

At N = 10 and 100 there are fewer rows than parameters, where logistic regression has an optimum
only with a penalty: it has one, of PENALTY, at all sizes.
"""

import pandas as pd

import acvlib as acv
from acvlib.models import GLM

from .glm_errors import truth
from .ladders import seconds, slope

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


def beside(timed, authors):
    """Medians over draws by n, and the authors' ratio; theirs is nearest to `with_fit`."""
    table = timed.drop(columns="draw").groupby("n").median()
    if authors is None:
        return table
    return table.assign(authors=authors.exact / authors.ij)


def growth(timed, column="ratio"):
    """The slope of log column on log n in each draw, over the sizes that all draws have."""
    counts = timed.groupby("n").draw.nunique()
    rows = timed[timed.n.map(counts) == timed.draw.nunique()]
    return [slope(of.n, of[column]) for _, of in rows.groupby("draw")]


def _model(source, n, rng):
    """A data set with two labels of each kind at least: one class alone has no optimum."""
    x, y = source.draw(n, rng)
    while min(y.sum(), n - y.sum()) < 2:
        x, y = source.draw(n, rng)
    return GLM(x, y, penalty=PENALTY)


def _times(model):
    """Least of five times, as other work spoils some; exact once where it is long."""
    folds, full = acv.folds.leave_one_out(model.n_sites), acv.fit(model)
    refits = []
    often = 5 if model.n_sites <= 2500 else 1
    return {
        "fit": min(seconds(lambda: acv.fit(model), 5)),
        "ij": min(seconds(lambda: acv.infinitesimal_jackknife(full, folds), 5)),
        "ns": min(seconds(lambda: acv.newton_step(full, folds), 5)),
        "exact": min(seconds(lambda: refits.append(acv.exact(full, folds)), often)),
        "unconverged": int((~refits[0].diagnostics["converged"]).sum()),
    }
