"""How the error of approximate CV falls: Theorems 4.4 to 4.6 of Zhu and Liu (2021)."""

from dataclasses import replace

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.models import ManifoldEnergy, PairwiseLinear, RBFAffinity, SemiSupervised

from .general import RUNGS
from .ladders import pointwise, slopes

SHIFT = np.array([1.0, 1.0, -0.5, 0.5])  # the true slopes


def supervised(n, rng):
    """Theorem 4.4: a logistic model without pairs, every point labelled."""
    X, y = _points(n, rng)
    return SemiSupervised(ManifoldEnergy(X, RBFAffinity(X, 4.0)), y, "logistic", gamma_p=0.0)


def semi_supervised(n, rng, ratio=4):
    """Theorem 4.5 and Corollary 6.1: with pairs, and one point of `ratio` labelled."""
    X, y = _points(ratio * n, rng)
    y[rng.permutation(ratio * n)[n:]] = np.nan
    return SemiSupervised(ManifoldEnergy(X, RBFAffinity(X, 4.0)), y, "logistic", gamma_p=1.0)


def hinge(n, rng):
    """Corollary 6.1 for the Laplacian SVM: as `semi_supervised`, with its squared hinge."""
    return replace(semi_supervised(n, rng), loss="squared_hinge", gamma_i=0.1)


def contrastive(n, rng):
    """Corollary 6.2 for Example 3: points of two classes, apart and together."""
    X, y = _points(n, rng)
    return PairwiseLinear(X, y, "contrastive", gamma_i=0.1)


def pairwise(n, rng):
    """Theorem 4.6 and Corollary 6.2: which of two points has the higher response."""
    X, _ = _points(n, rng)
    return PairwiseLinear(X, X @ SHIFT + rng.standard_normal(n), "ranking", gamma_i=0.1)


KINDS = {"supervised": supervised, "semi_supervised": semi_supervised, "pairwise": pairwise}
KINDS |= {"hinge": hinge, "contrastive": contrastive}
# With gamma_I = 0 what Theorem 3.1 leaves out vanishes at the optimum, if there is but one term.
KINDS |= {
    f"{make.__name__}_plain": lambda n, rng, make=make: replace(make(n, rng), gamma_i=0.0)
    for make in (supervised, pairwise)
}
PAIRS = ("pairwise", "contrastive", "pairwise_plain")


def _points(n, rng):
    X = np.clip(rng.standard_normal((n, len(SHIFT))), -2.0, 2.0)  # bounded, as the theorems ask
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-X @ SHIFT)), 1.0, -1.0)


def errors(model, folds):
    """|t-ACV - t-CV| of each rung by Eq. 11; `theta RUNG`: the median error of its params. eq_17:
    the theorem as printed with the normaliser of Eq. 17, p - 1, where two points are left out.
    """
    full = acv.fit(model, tolerance=1e-10)
    reference, row = acv.exact(full, folds, tolerance=1e-10), {}
    for method in RUNGS:
        result = method(full, folds)
        gap = pointwise(acv.linearised(result)).mean() - pointwise(reference).mean()
        row[method.__name__] = abs(gap)
        row[f"theta {method.__name__}"] = np.median(
            np.linalg.norm(result.params - reference.params, axis=1)
        )
        if method is acv.as_printed and isinstance(model, PairwiseLinear):
            shorter = ((model.n_sites - 2) / (model.n_sites - 1)) ** 2
            moved = full.params + shorter * (result.params - full.params)
            gap = pointwise(acv.linearised(replace(result, params=moved))) - pointwise(reference)
            row["eq_17"] = abs(gap.mean())
    return row


def by_folds(kind, n, numbers, rng):
    """`errors` against t - 1 for n labelled points, equal folds at random, as the paper's; the last
    number is that of the smallest folds.
    """
    model = KINDS[kind](n, rng)
    sites = _observed(model)
    rows = [errors(model, np.array_split(rng.permutation(sites), t)) for t in numbers]
    return pd.DataFrame(rows, index=pd.Index([t - 1 for t in numbers], name="t - 1"))


def over_bound(table):
    """Of `by_folds`: the largest (t - 1)^2 error over its value for the smallest folds, the last. A
    constant that bounds it for all t is that of the theorems.
    """
    scaled = table.mul(np.asarray(table.index, float) ** 2, axis=0)
    return scaled.iloc[:-1].max() / scaled.iloc[-1]


def by_shares(rng, labelled=(50, 150, 450), ratios=(2, 8), n_folds=30):
    """`errors` of single points, semi-supervised, for s labelled of p = ratio s points, against
    Theorem 4.5's 1/s^2 + 1/(sp) + 1/p^2; one row a pair.
    """
    rows = {}
    for s in labelled:
        for ratio in ratios:
            model = semi_supervised(s, rng, ratio)
            p = model.n_sites
            stated = 1 / s**2 + 1 / (s * p) + 1 / p**2
            rows[stated] = errors(model, _smallest(model, "semi_supervised", rng, n_folds))
    return pd.DataFrame(rows).T.rename_axis("stated")


def smallest_folds(kind, sizes, rng, n_folds=30):
    """`errors` of the smallest folds against the number of labelled points, a data set for each.

    Folds of one point; of two for pairs, as one makes none; at most n_folds of them, at random.
    """
    models = [KINDS[kind](n, rng) for n in sizes]
    rows = [errors(model, _smallest(model, kind, rng, n_folds)) for model in models]
    return pd.DataFrame(rows, index=pd.Index(sizes, name="points"))


def growth(tables, rng, n_resamples=500):
    """Of `smallest_folds` of many draws, by column: n^2 times the median error, of the most points
    over that of the fewest; low, high: 10 % and 90 % quantiles over resampled draws.
    """
    n, size = np.asarray(tables[0].index[[0, -1]]), (n_resamples, len(tables))
    some = np.vstack([np.arange(len(tables)), rng.integers(len(tables), size=size)])
    ends = np.stack([table.iloc[[0, -1]] for table in tables])[some]
    few, many = np.median(ends, axis=1).swapaxes(0, 1)
    times = many / few * (n[1] / n[0]) ** 2
    rows = [times[0], *np.quantile(times, [0.1, 0.9], axis=0)]
    return pd.DataFrame(rows, ["times", "low", "high"], tables[0].columns).T


def mean(tables):
    """Mean errors over draws: that of a single one may vanish where its parts cancel."""
    return sum(tables) / len(tables)


def _smallest(model, kind, rng, n_folds):
    folds = rng.permutation(_observed(model)).reshape(-1, 2 if kind in PAIRS else 1)
    return np.sort(folds[:n_folds], axis=1)


def _observed(model):
    """The sites that may be in folds."""
    return np.arange(model.n_sites) if model.observed is None else np.flatnonzero(model.observed)


def slopes_of(tables):
    """`ladders.slopes` of each draw's table, one row a draw."""
    return pd.DataFrame([slopes(table) for table in tables])
