"""Approximate cross-validation of structured models: data, model, fit, a ladder of methods, comparison."""

from . import datasets, figures, folds, ledger, models, weighting
from .baseline import no_adjustment
from .compare import compare
from .exact import exact
from .fit import fit, fit_at, fit_path
from .frozen import frozen_newton
from .jackknife import infinitesimal_jackknife
from .newton import newton_step
from .protocol import CVResult, EstimatingEquation, Fit, WeightedModel
