"""Figures 1 and 2 of Giordano et al. (2019): error estimates of simulated regressions, and seconds.

The paper gives N = 1,000, D = 100 and Gaussian covariates, and no more. Here x ~ N(0, I), beta ~
N(0, tau^2 I / D) and the intercept b is fixed, so that eta ~ N(b, tau^2): b and tau are chosen once
per family so that the training error comes out near the authors'. Their errors are rates of wrong
labels and, as the levels tell, squared. In Figure 2 at N = 10 and 100 there are fewer rows than
parameters, where logistic regression has an optimum only with a penalty: it has one at all sizes.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.models import FAMILIES, GLM

from .ladders import ESTIMATES, seconds, slope, theta_table

SIGNAL = {"logistic": (0.0, 1.9), "poisson": (-0.1, 0.35)}
SIGNAL |= {"probit": (0.0, 1.8), "gaussian": (0.0, 1.0)}
APPROXIMATE = {name: rung for name, rung in ESTIMATES.items() if rung is not acv.exact}


class Truth(NamedTuple):
    """The parameters that data are drawn from: a family, b and beta (D,)."""

    family: str
    intercept: float
    beta: np.ndarray

    def draw(self, n, rng):
        """(X (n, D), y (n,))."""
        x = rng.standard_normal((n, len(self.beta)))
        mean = FAMILIES[self.family].mean(self.intercept + x @ self.beta)
        if self.family == "gaussian":
            return x, rng.normal(mean)
        draw = rng.poisson(mean) if self.family == "poisson" else rng.binomial(1, mean)
        return x, draw.astype(float)


def truth(family, dim, rng):
    """A `Truth` with the signal of SIGNAL."""
    intercept, tau = SIGNAL[family]
    return Truth(family, intercept, tau / np.sqrt(dim) * rng.standard_normal(dim))


def error(family, y, mean):
    """The rate of wrong labels for 0/1 responses, the mean squared error otherwise."""
    if family in ("logistic", "probit"):
        return float(np.mean((mean > 0.5) != y))
    return float(np.mean((y - mean) ** 2))


def left_out_means(model, result):
    """E[y_n | x_n] at the params of the fold that leaves out n, for leave-one-out, (n,)."""
    eta = np.einsum("nd,nd->n", model.design, result.params)
    return model.family.mean(eta)


def one_data_set(family, n, dim, n_test, rng):
    """A dict of one data set: train, ij, frozen, ns, exact and test error; loss_*: the same in log
    loss, in_se_*: its distance from exact in standard errors of exact CV; theta_*, ten_theta_*: of
    params, median distance from the refit in standard errors, leave-one-out and ten folds.
    """
    source = truth(family, dim, rng)
    model = GLM(*source.draw(n, rng), family)
    full = acv.fit(model)
    results = {name: rung(full, acv.folds.leave_one_out(n)) for name, rung in ESTIMATES.items()}
    row = {name: error(family, model.y, left_out_means(model, r)) for name, r in results.items()}
    row |= {f"loss_{name}": result.loss for name, result in results.items()}
    refits = results["exact"]
    row |= {f"in_se_{n}": abs(r.loss - refits.loss) / refits.se for n, r in results.items()}
    x, y = source.draw(n_test, rng)
    eta = full.params[0] + x @ full.params[1:]
    row["test"] = error(family, y, model.family.mean(eta))
    row["loss_test"] = float(model.family.loss(eta, y).mean())
    folds = acv.folds.k_fold(n, 10, rng)
    tenth = {name: rung(full, folds) for name, rung in ESTIMATES.items()}
    for kind, rungs in (("theta_", results), ("ten_theta_", tenth)):
        row |= theta_table(rungs).median().add_prefix(kind).to_dict()
    return row | {"family": family, "converged": bool(refits.diagnostics["converged"].all())}


def figure1(families, n_sets, n, dim, n_test, rng):
    """`one_data_set` for each family and data set, as a DataFrame of n_sets rows a family."""
    return pd.DataFrame(
        [one_data_set(f, n, dim, n_test, rng) for f in families for _ in range(n_sets)]
    )


def compared(errors):
    """`errors` with each estimate over the test error (train_to_test, ...), whether IJ and
    training error are below exact, and their shortfall from exact over exact's gain on training.
    """
    gain = errors.exact - errors.train
    return errors.assign(
        **{f"{name}_to_test": errors[name] / errors.test for name in ("train", "ij", "exact")},
        ij_below_exact=errors.ij < errors.exact,
        train_below_exact=errors.train < errors.exact,
        gap_to_gain=(errors.exact - errors.ij) / gain,
    )


COMPARED = ("train_to_test", "ij_to_test", "exact_to_test", "gap_to_gain")


def beside(errors, authors):
    """Medians over data sets of what `compared` adds, ours and the authors', and the share of data
    sets with the IJ below exact, by family.
    """
    tables = {"ours": errors} if authors is None else {"ours": errors, "authors": authors}
    rows = {}
    for name, table in tables.items():
        by = compared(table).groupby("family")
        shares = by[[*COMPARED]].median().assign(ij_below_exact=by.ij_below_exact.mean())
        rows[name] = shares
    return pd.concat(rows, names=["whose"]).swaplevel().sort_index()


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


def times_beside(timed, authors):
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
