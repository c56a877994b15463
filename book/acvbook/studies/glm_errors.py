"""Figure 1 of Giordano et al. (2019), and model selection:
error estimates of simulated regressions.

The paper gives N = 1,000, D = 100 and Gaussian covariates, and no more. Here x ~ N(0, I), beta ~
N(0, tau^2 I / D) and the intercept b is fixed, so that eta ~ N(b, tau^2): b and tau are chosen once
per family so that the training error comes out near the authors'. Their errors are rates of wrong
labels and, as the levels tell, squared.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from acvlib.fit import fit
from acvlib.folds import leave_one_out
from acvlib.methods.exact import exact
from acvlib.methods.jackknife import infinitesimal_jackknife
from acvlib.methods.ladder import no_adjustment
from acvlib.methods.newton_step import newton_step
from acvlib.models import FAMILIES, GLM

SIGNAL = {
    "logistic": (0.0, 1.9),
    "poisson": (-0.1, 0.35),
    "probit": (0.0, 1.8),
    "gaussian": (0.0, 1.0),
}
RUNGS = {"train": no_adjustment, "ij": infinitesimal_jackknife, "ns": newton_step, "exact": exact}


class Truth(NamedTuple):
    """The parameters that data are drawn from: a family, b and beta (D,)."""

    family: str
    intercept: float
    beta: np.ndarray

    def draw(self, n, rng):
        """(X (n, D), y (n,))."""
        x = rng.standard_normal((n, len(self.beta)))
        mean = FAMILIES[self.family].mean(self.intercept + x @ self.beta)
        return x, _response(self.family, mean, rng)


def _response(family, mean, rng):
    if family == "gaussian":
        return rng.normal(mean)
    return (rng.poisson(mean) if family == "poisson" else rng.binomial(1, mean)).astype(float)


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
    """E[y_n | x_n] at the params of the fold that leaves out n, for leave-one-out in order,
    (n,).
    """
    eta = np.einsum("nd,nd->n", model.design, result.params) + model.offset
    return model.family.mean(eta)


def one_data_set(family, n, dim, n_test, rng):
    """A dict: train, ij, ns, exact, test error; loss_*: the same in log loss; theta_*:
    median error in SE.
    """
    source = truth(family, dim, rng)
    model = GLM(*source.draw(n, rng), family)
    full, folds = fit(model), leave_one_out(n)
    results = {name: rung(model, full, folds) for name, rung in RUNGS.items()}
    row = {
        name: error(family, model.y, left_out_means(model, result))
        for name, result in results.items()
    }
    row |= {f"loss_{name}": result.loss for name, result in results.items()}
    for name, result in results.items():
        row[f"theta_{name}"] = float(
            np.median(full.standard_errors_between(result.params, results["exact"].params))
        )
    x, y = source.draw(n_test, rng)
    eta = full.params[0] + x @ full.params[1:]
    row |= {
        "test": error(family, y, model.family.mean(eta)),
        "loss_test": float(model.family.loss(eta, y).mean()),
    }
    return row | {
        "family": family,
        "converged": bool(results["exact"].diagnostics["converged"].all()),
    }


def figure1(families, n_sets, n, dim, n_test, rng):
    """`one_data_set` for each family and data set, as a DataFrame of n_sets rows a family."""
    return pd.DataFrame(
        [one_data_set(f, n, dim, n_test, rng) for f in families for _ in range(n_sets)]
    )


def summary(errors):
    """Means by family, and how the estimates stand to each other and to the test error."""
    by = errors.groupby("family")
    table = by[["train", "ij", "ns", "exact", "test"]].mean()
    below = errors.assign(
        below=errors.ij < errors.exact, at_most=errors.ij <= errors.exact
    ).groupby("family")
    gap = (table.exact - table.ij) / (table.exact - table.train)
    shares = {"ij_below_exact": below.below.mean(), "ij_at_most_exact": below.at_most.mean()}
    return table.assign(**shares, gap_to_gain=gap)


def penalty_path(penalties, n, dim, n_test, rng, family="logistic"):
    """Mean log loss by each rung and on test data at each penalty, a DataFrame indexed by
    penalty.
    """
    source = truth(family, dim, rng)
    (x, y), (x_test, y_test) = source.draw(n, rng), source.draw(n_test, rng)
    folds, rows = leave_one_out(n), []
    for penalty in penalties:
        model = GLM(x, y, family, penalty=penalty)
        full = fit(model)
        row = {name: rung(model, full, folds).loss for name, rung in RUNGS.items()}
        eta = full.params[0] + x_test @ full.params[1:]
        rows.append(row | {"test": float(model.family.loss(eta, y_test).mean())})
    return pd.DataFrame(rows, index=pd.Index(penalties, name="penalty"))
