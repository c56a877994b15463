"""Approximate cross-validation of structured models: data, model, fit, a ladder of methods, comparison."""

from importlib import import_module

from . import curvature, folds, graph, models, weighting
from .baseline import no_adjustment
from .compare import compare, relative_errors, theta_errors
from .diagnostics import check_derivatives, difference_estimate, flag, mend
from .exact import exact
from .fit import fit, fit_at, fit_path
from .frozen import frozen_newton
from .general import as_printed, linearised
from .incremental import CompiledLearner, Examples, IncrementalLearner
from .jackknife import infinitesimal_jackknife
from .ladder import ladder
from .newton import newton_step
from .protocol import CVResult, EstimatingEquation, Fit, WeightedModel
from .treecv import kfold, treecv

__all__ = [
    "WeightedModel",
    "EstimatingEquation",
    "fit",
    "fit_at",
    "fit_path",
    "Fit",
    "no_adjustment",
    "infinitesimal_jackknife",
    "frozen_newton",
    "newton_step",
    "as_printed",
    "linearised",
    "exact",
    "ladder",
    "IncrementalLearner",
    "CompiledLearner",
    "Examples",
    "treecv",
    "kfold",
    "CVResult",
    "compare",
    "relative_errors",
    "theta_errors",
    "check_derivatives",
    "flag",
    "mend",
    "difference_estimate",
    "approx_cross_validate",
    "folds",
    "curvature",
    "weighting",
    "graph",
    "graph_folds",
    "models",
    "learners",
    "bootstrap",
    "bounds",
    "datasets",
    "figures",
    "ledger",
]


def __getattr__(name):
    """Loads the modules that not every user needs when first named: matplotlib and scikit-learn import slowly."""
    if name == "approx_cross_validate":
        return import_module(".cross_validate", __name__).approx_cross_validate
    if name in {"graph_folds", "learners", "bootstrap", "bounds", "estimators", "datasets", "figures", "ledger"}:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
