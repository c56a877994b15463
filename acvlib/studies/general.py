"""Manifold-regularised models of the data of Zhu and Liu (2021), and every rung on their folds: Figures 1 to 3."""

import numpy as np
import pandas as pd

from ..baseline import no_adjustment
from ..compare import theta_errors
from ..exact import exact
from ..fit import fit
from ..folds import k_fold
from ..frozen import frozen_newton
from ..general import as_printed, linearised
from ..jackknife import infinitesimal_jackknife
from ..models import ManifoldEnergy, RBFAffinity, SemiSupervised, median_square_distance

RUNGS = (no_adjustment, as_printed, infinitesimal_jackknife, frozen_newton)
LABELLED = 0.1  # share of the points; the paper hides the labels of the others


def points_and_response(data):
    """(X (p, d + 1), y (p,)): features and a constant one; labels, or a response of mean 0 and variance 1.

    Features of regression are scaled to [-1, 1], as in LIBSVM's scaled files; there are none for classification.
    """
    X = np.column_stack([data.X if data.is_classification else data.scaled(), np.ones(len(data))])
    return X, data.y if data.is_classification else (data.y - data.y.mean()) / data.y.std()


def semi_supervised(data, rng, loss=None, affinity=None, **gammas):
    """The linear `SemiSupervised` model of a data set with 90 % of its labels hidden, at random.

    loss: the square, or for classification the logistic one, unless another is named. affinity: a function of points
    and sigma, `RBFAffinity` if none; sigma is the median squared distance of two points, which the paper leaves open.
    """
    X, y = points_and_response(data)
    hidden = rng.permutation(len(y))[round(LABELLED * len(y)) :]
    sigma = median_square_distance(X, rng)
    y = np.where(np.isin(np.arange(len(y)), hidden), np.nan, y)
    loss = loss or ("logistic" if data.is_classification else "square")
    return SemiSupervised(ManifoldEnergy(X, (affinity or RBFAffinity)(X, sigma)), y, loss, **gammas)


def every_rung(model, rng, n_folds=20):
    """{name: CVResult} of exact CV and all RUNGS, on the same random folds of the labelled points."""
    folds = k_fold(model.n_sites, n_folds, rng, model.observed)
    full = fit(model)
    return {method.__name__: method(model, full, folds) for method in (exact, *RUNGS)}


def standard_error_unit(model, full):
    """What a distance in the metric of F is divided by to count in standard errors: 1 but for the square loss."""
    if model.loss != "square":
        return 1.0
    return float(np.sqrt(2.0 * model.heldout_loss(full.params, model.labelled).mean()))


def agreement(model, results):
    """How near each rung comes to exact CV, one row a rung.

    loss: mean held-out loss; r_loss and r_difference: Pearson's R over left-out points of predicted and actual loss,
    and of what leaving out adds to them (nan without adjustment: it adds nothing); theta_error: median over folds, in
    standard errors.
    """
    reference, none = (np.concatenate(results[name].pointwise) for name in ("exact", "no_adjustment"))
    unit = standard_error_unit(model, results["exact"].fit)
    rows = {}
    for name, result in results.items():
        losses = np.concatenate(result.pointwise)
        rows[name] = {
            "loss": losses.mean(),
            "r_loss": correlation(losses, reference),
            "r_difference": correlation(losses - none, reference - none),
            "theta_error": np.median(theta_errors(results["exact"], result)) / unit,
            "seconds": result.seconds,
        }
    return pd.DataFrame(rows).T.rename_axis("rung")


def correlation(a, b):
    """Pearson's R; nan where one of them does not vary."""
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0.0 < np.ptp(b) else float("nan")


def expansions(model, results):
    """Eq. 11 beside plugging in theta_o: errors of the mean loss and correlations of differences, one row a rung."""
    reference, none = (np.concatenate(results[name].pointwise) for name in ("exact", "no_adjustment"))
    rows = {}
    for rung in RUNGS[1:]:
        plain = results[rung.__name__]
        for way, result in (("plugged in", plain), ("linearised", linearised(model, plain))):
            losses = np.concatenate(result.pointwise)
            gap, r = losses.mean() - reference.mean(), correlation(losses - none, reference - none)
            rows[rung.__name__, way] = {"error of the mean loss": gap, "r_difference": r}
    return pd.DataFrame(rows).T.rename_axis(["rung", "evaluation"])
