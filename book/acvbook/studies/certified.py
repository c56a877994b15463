"""What `acvlib.certify` proves, beside exact refits: simulated, real and adversarial problems."""

import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.beyond.certify import NotCertified
from acvlib.models import GLM
from acvlib.trials import NoFiniteOptimum

from ..theorem1 import theorem1
from . import general
from .ladders import some, timed

REFIT = 1e-10  # standard errors: how exact the refits are that certificates are held against
ROUNDED = 1e-8  # true errors below are those of the refits
REFUSED = (NoFiniteOptimum, NotCertified, np.linalg.LinAlgError)
METHODS = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step)


class Checked(NamedTuple):
    """A certificate, the exact refits of its folds, and processor seconds of step and proof."""

    fit: Any
    certificate: acv.Certificate
    exact: acv.CVResult
    step_seconds: float = np.nan
    seconds: float = np.nan

    @property
    def errors(self):
        """The true distance of the result's params from the refits, in standard errors."""
        return self.fit.standard_errors_between(self.certificate.result.params, self.exact.params)

    @property
    def seen(self):
        """Which folds are certified and have a refit."""
        return self.certificate.certified & self.exact.diagnostics["converged"]

    @property
    def violations(self):
        """Folds whose refit is outside their certificate, by more than the refit's own error."""
        slack = 10 * REFIT
        low, high = self.certificate.loss_interval.T
        outside = (self.exact.fold_losses < low - slack) | (self.exact.fold_losses > high + slack)
        outside |= self.errors > self.certificate.theta_errors + slack
        return int((outside & self.seen).sum())

    @property
    def idle_violations(self):
        """The same for the full fit's params and losses, had they the same bounds."""
        idle = self.fit.standard_errors_between(self.exact.params, self.fit.params)
        return int((idle > self.certificate.theta_errors + 10 * REFIT)[self.seen].sum())

    @property
    def gap(self):
        """How much larger the loss is by cross-validation than in training."""
        return self.exact.loss - np.nanmean(self.exact.fitted_losses)

    def row(self):
        """What tables show of it."""
        found = self.certificate
        known = found.certified & (self.errors > ROUNDED)
        ratio = found.theta_errors[known] / self.errors[known]
        return {
            "folds": len(found.certified),
            "certified": found.certified.mean(),
            "bound_over_true": np.median(ratio) if known.any() else np.nan,
            "width_over_gap": np.diff(found.interval)[0] / self.gap,
            "seconds_over_step": self.seconds / self.step_seconds,
            "violations": self.violations,
            "idle_violations": self.idle_violations,
        }


def check(model, folds, method=acv.newton_step, fit=None, exact=None, **options):
    """Certify a method's folds and refit all of them."""
    fit = fit or acv.fit(model, tolerance=1e-9)
    exact = exact or acv.exact(fit, folds, tolerance=REFIT)
    result, step_seconds = timed(lambda: method(fit, folds), time.process_time)
    certificate, seconds = timed(lambda: acv.certify(result, **options), time.process_time)
    return Checked(fit, certificate, exact, step_seconds, seconds)


def both(model, folds, **options):
    """{"": from the full fit first, "sharp": every fold from its own params} of a Newton step."""
    first = check(model, folds, **options)
    return {"": first, "sharp": check(model, folds, fit=first.fit, sharp=True, exact=first.exact)}


def _row(checked):
    """The cheap certificate's numbers, and from the sharp one how close its bounds are."""
    row = checked[""].row()
    sharp = checked["sharp"].row()
    row["sharp_over_true"] = sharp["bound_over_true"]
    row["sharp_width_over_gap"] = sharp["width_over_gap"]
    row["violations"] += sharp["violations"]
    return row


def given_regressions(rng, n_rows):
    """{name: (model, data)} of logistic and Poisson regressions on given data, ridge 1."""
    from sklearn.datasets import load_breast_cancer, load_digits

    x, y = load_breast_cancer(return_X_y=True)
    found = {"breast cancer": _standardised(x, y)}
    x, y = load_digits(return_X_y=True)
    found["digits, odd or even"] = _standardised(x, y % 2)
    models = {name: (GLM(x, y, "logistic", penalty=1.0), None) for name, (x, y) in found.items()}
    for name in ("svmguide3", "w2a_standin", "a9a"):
        data = general.load(name, rng, n_rows)
        x, y = _standardised(data.X, data.y > 0)
        models[name] = (GLM(x, y, "logistic", penalty=1.0), data)
    data = general.load("abalone", rng, n_rows)
    x, y = _standardised(data.X, data.y)
    models["abalone (counts)"] = (GLM(x, y, "poisson", penalty=1.0), data)
    return models


def _standardised(x, y):
    spread = x.std(axis=0)
    kept = spread > 0.0
    return (x[:, kept] - x[:, kept].mean(axis=0)) / spread[kept], np.asarray(y, float)


def given_table(models, n_folds, rng):
    """One row a data set: single rows left out, and Theorem 1 of the same folds."""
    rows = {}
    for name, (model, _) in models.items():
        folds = some(acv.folds.leave_one_out(model.n_sites), n_folds, rng)
        checked = both(model, folds, complete=True)
        costs = {"seconds_over_exact": checked[""].seconds / exact_seconds(model, checked[""])}
        refitted = {"refitted": checked[""].certificate.refitted.mean()}
        rows[name] = {"n": model.n_sites, "D": model.n_params} | _row(checked) | refitted | costs
        rows[name] |= theorem(model, checked[""])
    return pd.DataFrame(rows).T


def exact_seconds(model, checked):
    """Processor seconds of exact refits as a user runs them."""
    return timed(lambda: acv.exact(checked.fit, checked.exact.folds), time.process_time)[1]


def theorem(model, checked):
    """Theorem 1's share of certified folds, and its bound over the true error, certified or not."""
    folds = checked.exact.folds
    fit = checked.fit
    bound = theorem1(fit, folds)
    jackknife = acv.infinitesimal_jackknife(fit, folds)
    true = np.linalg.norm(jackknife.params - checked.exact.params, axis=1)
    known = true > ROUNDED
    ratio = np.median(bound.bound[known] / true[known]) if known.any() else np.nan
    return {"theorem1_certified": bound.applies.mean(), "theorem1_over_true": ratio}


def one_fold(rng):
    """A one-parameter logistic regression, its fold without two rows of the rarer kind, in curves.

    The fold's objective along params, the bound from below that the full fit's point proves, and
    where the full fit, the Newton step, the ball and the refit are.
    """
    x = np.linspace(-2.0, 2.0, 40)[:, None]
    y = (rng.random(40) < 1.0 / (1.0 + np.exp(-1.5 * x[:, 0]))).astype(float)
    model = GLM(x, y, "logistic", penalty=0.1, intercept=False)
    fit = acv.fit(model)
    wrong = np.flatnonzero((y == 1.0) != (x[:, 0] > 0.0))[:2]
    fold = acv.Folds([wrong])
    step = acv.newton_step(fit, fold)
    weights = np.ones(40)
    weights[fold[0]] = 0.0
    kept = np.abs(x[weights > 0.0]).max()
    here = fit.params[0]
    _, gradient = model.derivatives.value_and_gradient(fit.params, weights)
    curvature = np.asarray(model.derivatives.hessian(fit.params, weights))[0, 0]
    theta = here + np.linspace(-0.6, 2.8, 300) * (step.params[0, 0] - here)
    values = np.array([model.objective(np.array([t]), weights) for t in theta])
    steps = np.abs(theta - here)
    falling = gradient[0] * (theta - here)
    bend = curvature * (np.expm1(-kept * steps) + kept * steps) / kept**2
    length = np.abs(step.params[0, 0] - here)
    radius = -np.log1p(-kept * length) / kept - length
    base = model.objective(fit.params, weights)
    return {
        "theta": theta,
        "objective": values - base,
        "bound": falling + bend,
        "fit": here,
        "step": step.params[0, 0],
        "ball": step.params[0, 0] + np.array([-1, 1]) * radius,
        "refit": acv.exact(fit, fold, tolerance=1e-10).params[0, 0],
    }
