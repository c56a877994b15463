"""What `acvlib.certify` proves of given data, beside exact refits and Theorem 1."""

import time
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.feature_selection import VarianceThreshold
from sklearn.preprocessing import scale

import acvlib as acv
from acvlib.models import GLM

from ..theorem1 import theorem1
from . import general
from .ladders import some, timed

REFIT = 1e-10  # standard errors: how exact the refits are that certificates are held against
SLACK = 10 * REFIT
ROUNDED = 1e-8  # true errors below are those of the refits


class Checked(NamedTuple):
    """A certificate, the exact refits of its folds, and processor seconds of step and proof."""

    certificate: acv.Certificate
    exact: acv.CVResult
    step_seconds: float
    seconds: float

    @property
    def errors(self):
        """The true distance of the result's params from the refits, in standard errors."""
        return acv.theta_errors(self.exact, self.certificate.result)

    def outside(self, params, losses=None):
        """How many certified folds have a refit further from these than the certificate says."""
        found, exact = self.certificate, self.exact
        far = exact.fit.standard_errors_between(params, exact.params) > found.theta_errors + SLACK
        if losses is not None:
            low, high = found.loss_interval.T
            far |= (losses < low - SLACK) | (losses > high + SLACK)
        return int((far & found.certified & exact.diagnostics["converged"]).sum())

    def row(self):
        """What tables show of it."""
        found, exact = self.certificate, self.exact
        known = found.certified & (self.errors > ROUNDED)
        ratio = found.theta_errors[known] / self.errors[known]
        return {
            "folds": len(found.certified),
            "certified": found.certified.mean(),
            "bound_over_true": np.median(ratio) if known.any() else np.nan,
            "width_over_gap": np.diff(found.interval)[0]
            / (exact.loss - np.nanmean(exact.fitted_losses)),
            "seconds_over_step": self.seconds / self.step_seconds,
            "violations": self.outside(found.result.params, exact.fold_losses),
            "idle_violations": self.outside(exact.fit.params),
        }


def both(model, folds, **options):
    """{"": from the full fit first, "sharp": every fold by a refit} of a Newton step."""
    fit = acv.fit(model, tolerance=1e-9)
    exact = acv.exact(fit, folds, tolerance=REFIT)
    step, step_seconds = timed(lambda: acv.newton_step(fit, folds), time.process_time)
    checked = {}
    for name, ways in (("", options), ("sharp", {"sharp": True})):
        proof = timed(lambda ways=ways: acv.certify(step, **ways), time.process_time)
        checked[name] = Checked(proof[0], exact, step_seconds, proof[1])
    return checked


def given_regressions(rng, n_rows):
    """{name: (model, data)} of logistic and Poisson regressions on given data, ridge 1."""
    x, y = load_digits(return_X_y=True)
    given = {
        "breast cancer": (*load_breast_cancer(return_X_y=True), "logistic", None),
        "digits, odd or even": (x, y % 2, "logistic", None),
    }
    for name in ("svmguide3", "w2a_standin", "a9a"):
        data = general.load(name, rng, n_rows)
        given[name] = data.X, data.y > 0, "logistic", data
    data = general.load("abalone", rng, n_rows)
    given["abalone (counts)"] = data.X, data.y, "poisson", data
    models = {}
    for name, (x, y, family, data) in given.items():
        x = scale(VarianceThreshold().fit_transform(x))
        models[name] = GLM(x, np.asarray(y, float), family, penalty=1.0), data
    return models


def given_table(models, n_folds, rng):
    """One row a data set: single rows left out, the cheap certificate's numbers, from the sharp one
    how close its bounds are, and Theorem 1 of the same folds.
    """
    rows = {}
    for name, (model, _) in models.items():
        folds = some(acv.folds.leave_one_out(model.n_sites), n_folds, rng)
        cheap, sharp = both(model, folds, complete=True).values()
        closer, fit = sharp.row(), cheap.exact.fit
        as_users = timed(lambda f=fit, o=folds: acv.exact(f, o), time.process_time)[1]
        row = {"n": model.n_sites, "D": model.n_params} | cheap.row()
        row["violations"] += closer["violations"]
        rows[name] = row | {
            "sharp_over_true": closer["bound_over_true"],
            "sharp_width_over_gap": closer["width_over_gap"],
            "refitted": cheap.certificate.refitted.mean(),
            "seconds_over_exact": cheap.seconds / as_users,
            **theorem(cheap.exact),
        }
    return pd.DataFrame(rows).T


def theorem(exact):
    """Theorem 1's share of certified folds, and its bound over the true error, certified or not."""
    bound = theorem1(exact.fit, exact.folds)
    jackknife = acv.infinitesimal_jackknife(exact.fit, exact.folds)
    true = np.linalg.norm(jackknife.params - exact.params, axis=1)
    known = true > ROUNDED
    ratio = np.median(bound.bound[known] / true[known]) if known.any() else np.nan
    return {"theorem1_certified": bound.applies.mean(), "theorem1_over_true": ratio}
