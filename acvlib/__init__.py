"""Approximate cross-validation of structured models: data, model, fit, methods, comparison."""

from importlib import import_module

from . import folds, weighting
from .certificates import Certificate, certify
from .choice import choose
from .compare import compare_methods, compare_models, relative_errors, theta_errors
from .concordance import NotConcordant
from .derivatives import Derivatives, derivatives_of
from .diagnostics import check_model, difference_estimate
from .fit import fit, fit_at, fit_path
from .folds import Folds
from .methods.as_printed import as_printed, linearised
from .methods.cv_gradient import cv_gradient
from .methods.exact import exact
from .methods.from_scratch import from_scratch
from .methods.frozen_newton import frozen_newton
from .methods.influence import most_influential
from .methods.jackknife import infinitesimal_jackknife
from .methods.ladder import ladder, no_adjustment
from .methods.leave_future_out import leave_future_out
from .methods.newton_step import newton_step
from .methods.tune import tune
from .parallel import kernel_cache
from .protocol import CVResult, EstimatingEquation, Fit, Model
from .reliability import check_result, refit_unreliable
from .scores import Interrupted
from .treecv import CompiledLearner, IncrementalLearner, kfold, treecv

kernel_cache.ensure()

# Loaded when first named: numba, matplotlib and scikit-learn import slowly.
_LAZY_MODULES = {
    "bootstrap": ".bootstrap",
    "bounds": ".bounds",
    "estimators": ".sklearn.estimators",
    "graph": ".inference.graph",
    "learners": ".treecv.learners",
    "models": ".models",
    "plots": ".plots",
    "spatial_folds": ".spatial_folds",
}
_LAZY_NAMES = {
    "Examples": ".rows",
    "approx_cross_val_predict": ".sklearn",
    "approx_cross_validate": ".sklearn",
    "approx_tune": ".sklearn.tune",
    "from_crfsuite": ".models.crf.crfsuite",
    "from_jax": ".adapters.jax",
    "from_torch": ".adapters.torch",
    "from_dynamax": ".models.hmm.adapters",
    "from_hmmlearn": ".models.hmm.adapters",
    "from_nemos": ".models.hmm.adapters",
}

__all__ = [
    "Model",
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
    "from_scratch",
    "ladder",
    "leave_future_out",
    "most_influential",
    "cv_gradient",
    "tune",
    "CVResult",
    "Interrupted",
    "compare_methods",
    "compare_models",
    "choose",
    "relative_errors",
    "theta_errors",
    "check_model",
    "check_result",
    "refit_unreliable",
    "certify",
    "Certificate",
    "NotConcordant",
    "difference_estimate",
    "Folds",
    "folds",
    "Derivatives",
    "derivatives_of",
    "weighting",
    "treecv",
    "kfold",
    "IncrementalLearner",
    "CompiledLearner",
    *_LAZY_MODULES,
    *_LAZY_NAMES,
]


def __getattr__(name):
    """Load a lazy module or name when it is first asked for."""
    if name in _LAZY_MODULES:
        return import_module(_LAZY_MODULES[name], __name__)
    if name in _LAZY_NAMES:
        return getattr(import_module(_LAZY_NAMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
