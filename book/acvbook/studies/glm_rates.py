"""Corollary 1 and Theorem 1 of Giordano et al. (2019), and coverage of the bootstrap; Proposition 5
of Ghosh et al. (2020), the mean gradient norm of logistic regression, on data.

It states: P(| mean_n |grad f(theta_hat, x_n)| - sqrt(D) | >= t) <= exp(-C N t^2 / c_x^2), one C
for all N, D and sub-Gaussian laws of the covariates. Its proof bounds the gradient's norm by |x_n|,
which serves the upper tail alone, and needs covariates of variance 1, as all of LAWS are.
"""

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.fit import fit
from acvlib.models import GLM

from ..theorem1 import Ball, theorem1
from . import ladders
from .glm_errors import truth

DESIGNS = {
    "bounded": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "heavy-tailed": lambda rng, shape: (
        rng.standard_t(5.0, shape) / np.sqrt(5.0 / 3.0)
    ),  # variance 1
}


def logistic_data(design, n, dim, rng):
    """A GLM with covariates of one of DESIGNS and a slope of 1 / sqrt(D) in each."""
    x = DESIGNS[design](rng, (n, dim))
    mean = 1.0 / (1.0 + np.exp(-x.sum(axis=1) / np.sqrt(dim)))
    return GLM(x, rng.binomial(1, mean))


def _distance(result, reference):
    return np.linalg.norm(result.params - reference.params, axis=1)


RUNGS = {"none": acv.no_adjustment, "ij": acv.infinitesimal_jackknife, "ns": acv.newton_step}


def leave_k_out(design, sizes, k, dim, n_draws, rng):
    """The largest Euclidean error of theta over folds of k sites, of each of RUNGS: a row for each
    draw and size.

    Folds: n / k disjoint ones of sites whose removal moves the first parameter alike, so that the
    worst sites leave together; for k = 1 all sites.
    """
    cells = [(draw, n) for draw in range(n_draws) for n in sizes]
    rows = [{"draw": draw, "n": n} | _largest_errors(design, n, k, dim, rng) for draw, n in cells]
    return pd.DataFrame(rows)


def _largest_errors(design, n, k, dim, rng):
    model = logistic_data(design, n, dim, rng)
    full = acv.fit(model, tolerance=1e-10)
    pull = acv.infinitesimal_jackknife(full, acv.folds.leave_one_out(n)).params[:, 0]
    folds = np.sort(np.argsort(pull)[: n // k * k].reshape(-1, k), axis=1)
    reference = acv.exact(full, folds, tolerance=1e-10)
    return {name: _distance(rung(full, folds), reference).max() for name, rung in RUNGS.items()}


def slopes(table, columns=tuple(RUNGS)):
    """d log(column) / d log(n) by least squares, a row for each draw."""
    by_draw = table.set_index("n").groupby("draw")
    return pd.DataFrame({draw: ladders.slopes(rows, columns) for draw, rows in by_draw}).T


def by_folds_size(n, dim, sizes, rng):
    """Slope of the largest error of `leave_k_out` against k, bounded covariates, of each rung."""
    rows = {k: _largest_errors("bounded", n, k, dim, rng) for k in sizes}
    return ladders.slopes(pd.DataFrame(rows).T)


def assumptions(sizes, dim, n_draws, rng, radius=0.5):
    """The constants of Assumptions 2 to 4 in a ball about the fit, for each draw and n; c_op, c_g,
    c_h, l_h.
    """
    rows = {}
    for draw in range(n_draws):
        for n in sizes:
            model = logistic_data("bounded", n, dim, rng)
            ball = Ball(model, acv.fit(model).params, radius)
            c_g, c_h = ball.averages()
            rows[draw, n] = {"c_op": ball.c_op(), "c_g": c_g, "c_h": c_h, "l_h": ball.l_h()}
    return pd.DataFrame(rows).T.rename_axis(["draw", "n"])


def share_below(constants, slack=1.25):
    """By n, the share of draws with no constant above `slack` times its median at the largest n."""
    largest = constants.index.get_level_values("n").max()
    limits = slack * constants.xs(largest, level="n").median()
    return (constants <= limits).all(axis=1).groupby("n").mean()


def theorem1_on_data(settings, n_draws, rng):
    """For each draw and (n, dim): Theorem 1's share of folds that it applies to,
    and its bound over the actual error.

    violated: folds where it applies and the IJ's error is larger; unconditional: folds where the
    formula is smaller than the IJ's error whether or not the condition holds; none_violated,
    none_unconditional: the same of the error of doing nothing; actual, none: the largest errors.
    """
    cells = [(draw, *setting) for draw in range(n_draws) for setting in settings]
    return pd.DataFrame([{"draw": draw} | _theorem1_row(n, dim, rng) for draw, n, dim in cells])


def bounds_table(bounds):
    """Medians over draws by (dim, n), and sums of the counts of folds, of `theorem1_on_data`."""
    by = bounds.groupby(["dim", "n"])
    medians = by[["delta", "limit", "applies", "bound", "actual", "ratio"]].median()
    return medians.join(by[["violated", "none_violated"]].sum())


def _theorem1_row(n, dim, rng):
    model = logistic_data("bounded", n, dim, rng)
    folds, full = acv.folds.leave_one_out(n), acv.fit(model, tolerance=1e-10)
    theorem = theorem1(full, folds)
    reference = acv.exact(full, folds, tolerance=1e-10)
    actual = _distance(acv.infinitesimal_jackknife(full, folds), reference)
    none = _distance(acv.no_adjustment(full, folds), reference)
    row = {"n": n, "dim": dim, "delta": theorem.delta.max(), "limit": theorem.limit}
    return row | {
        "applies": theorem.applies.mean(),
        "violated": int((actual > theorem.bound)[theorem.applies].sum()),
        "unconditional": int((actual > theorem.bound).sum()),
        "none_violated": int((none > theorem.bound)[theorem.applies].sum()),
        "none_unconditional": int((none > theorem.bound).sum()),
        "bound": theorem.bound.max(),
        "actual": actual.max(),
        "none": none.max(),
        "ratio": np.median(theorem.bound / actual),
    }


def coverage(family, n_sets, n, dim, n_resamples, level, rng):
    """One row a data set: the share of the D + 1 true parameters inside each interval,
    and of each kind mean widths (_width) and the standard errors over those of the delta method,
    mean over parameters (_delta). none: intervals of equal parameters.
    """
    rows = [_coverage_row(family, n, dim, n_resamples, level, rng) for _ in range(n_sets)]
    return pd.DataFrame(rows)


def _coverage_row(family, n, dim, n_resamples, level, rng):
    source = truth(family, dim, rng)
    model = GLM(*source.draw(n, rng), family)
    full, weights = acv.fit(model), rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)
    true = np.concatenate([[source.intercept], source.beta])
    params = {
        "none": np.tile(full.params, (n_resamples, 1)),
        "ij": acv.bootstrap.jackknife_params(full, weights),
        "bootstrap": acv.bootstrap.refits(full, weights),
    }
    row, delta = {}, delta_errors(model, full)
    for name, resampled in params.items():
        low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0)
        row |= {name: np.mean((low <= true) & (true <= high)), f"{name}_width": np.mean(high - low)}
        row[f"{name}_delta"] = np.mean(resampled.std(axis=0) / delta)
    return row


def coverage_table(covered, kinds):
    """Means over data sets, a row a kind."""
    columns = {"coverage": "", "width": "_width", "errors over delta method's": "_delta"}
    return pd.DataFrame(
        {name: [covered[kind + end].mean() for kind in kinds] for name, end in columns.items()},
        index=kinds,
    )


def delta_errors(model, full):
    """The delta method's standard errors, sqrt(diag(H^-1 sum_n g_n g_n' H^-1)), (D,)."""
    gradients = acv.derivatives_of(model).cross_matrix(full.params, np.ones(model.n_sites))
    return np.linalg.norm(full.hessian.solve(gradients), axis=1)


def in_batches(values, size=10):
    """Means of consecutive batches of `size`, of which a last short one is dropped."""
    whole = len(values) // size * size
    return np.asarray(values)[:whole].reshape(-1, size).mean(axis=1)


LAWS = {
    "Rademacher": (lambda rng, shape: rng.choice([-1.0, 1.0], shape), 1.0 / np.log(2.0)),
    "Gaussian": (lambda rng, shape: rng.standard_normal(shape), 8.0 / 3.0),
    "sparse 1/5": (lambda rng, shape: _sparse(rng, shape, 0.2), 5.0 / np.log(6.0)),
    "sparse 1/20": (lambda rng, shape: _sparse(rng, shape, 0.05), 20.0 / np.log(21.0)),
}
"""Names to (draw, c_x^2), c_x the least number with E exp(x^2 / c_x^2) <= 2."""


def _sparse(rng, shape, share):
    """0 but for a share of +-1 / sqrt(share): variance 1, heavy tails where it is small."""
    return rng.choice([-1.0, 1.0], shape) * (rng.random(shape) < share) / np.sqrt(share)


def mean_norms(law, n, dim, n_repeats, rng):
    """mean_n |grad f(theta_hat, x_n)| - sqrt(D), (n_repeats,)."""
    norms = []
    for _ in range(n_repeats):
        x = LAWS[law][0](rng, (n, dim))
        model = GLM(x, rng.integers(0, 2, n), intercept=False)
        slopes = model.family.slope(x @ fit(model).params, model.y)
        norms.append(np.mean(abs(slopes) * np.linalg.norm(x, axis=1)))
    return np.array(norms) - np.sqrt(dim)


def tails(settings, n_repeats, rng):
    """For each (law, n, dim): centres and tails of the deviations,
    at t = the spread that the rate allows.

    t = c_x / sqrt(N), where the statement's bound is exp(-C) whatever N, D and c_x. upper,
    two_sided: shares of the gradient's mean beyond t; scaled_sd: its standard deviation over t.
    """
    rows = []
    for law, n, dim in settings:
        norms, t = mean_norms(law, n, dim, n_repeats, rng), np.sqrt(LAWS[law][1] / n)
        shares = {"upper": (norms >= t).mean(), "two_sided": (abs(norms) >= t).mean()}
        about = {"law": law, "n": n, "dim": dim, "t": t, "centre": norms.mean()}
        rows.append(about | shares | {"scaled_sd": norms.std(ddof=1) / t})
    return pd.DataFrame(rows)


def rate(table):
    """The slope of the log sd of the gradient's mean on log n, common to laws and dims."""
    logs = pd.DataFrame({"n": np.log(table.n), "sd": np.log(table.scaled_sd * table.t)})
    within = logs - logs.groupby([table.law, table.dim]).transform("mean")
    return float(within.n @ within.sd / (within.n @ within.n))
