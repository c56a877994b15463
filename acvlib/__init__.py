"""Approximate cross-validation of structured models: what refits would say, from one fit.

    fit = acv.fit(model)
    result = acv.newton_step(fit, acv.folds.leave_one_out(model.n_sites))

The front doors, by what you have:

models               GLM, HMM, HiddenMRF, LinearChainCRF and more; or your own class, see Model
approx_*             a fitted scikit-learn estimator: cross-validate, predict, tune
from_hmmlearn        a fitted HMM
FeatureCRF           a tagger's sentences; from_crfsuite, a fitted CRF of sklearn-crfsuite
from_jax, from_torch a loss written in JAX or PyTorch
treecv, kfold        a learner that reads rows once, see learners, and Examples of rows or a file

and by what you ask:

fit                  all the data, to convergence
folds                what is left out: rows, blocks, groups, the future, regions of a map
newton_step          the loss of refits without each fold; other methods: ladder has them all
exact, from_scratch  the refits themselves
leave_future_out     each window of a series given its past
check_result         which folds not to trust: refit_unreliable mends them, certify proves bounds
compare_methods      a table of results of one model; compare_models, of several on the same folds
choose, tune         which of several models; which hyperparameters
most_influential     which sites a conclusion rests on; robustness_interval, how many it takes
same_choice          how many rows it takes to change which of two models is preferred
bootstrap            resamples by the same steps
check_model          whether a model of your own is what methods take it for
plots                pictures of results
"""

from importlib import import_module
from importlib.util import find_spec

from . import folds, weighting
from .check import check_result, refit_unreliable
from .compare import compare_methods, compare_models, relative_errors, theta_errors
from .derivatives import Derivatives, derivatives_of
from .diagnostics import check_model, difference_estimate
from .fit import fit, fit_at, fit_path
from .folds import Folds
from .methods.exact import exact
from .methods.ladder import (
    as_printed,
    frozen_newton,
    infinitesimal_jackknife,
    ladder,
    linearised,
    newton_step,
    no_adjustment,
)
from .model import EstimatingEquation, Model
from .parallel import keep_kernels
from .results import CVResult, Fit
from .treecv import CompiledLearner, IncrementalLearner, kfold, treecv

__version__ = "0.3.0"

keep_kernels()

# What is loaded when it is first named, as numba, matplotlib and scikit-learn import slowly:
# modules, and names of modules.
_LAZY_MODULES = {
    "bootstrap": ".bootstrap",
    "graph": ".inference.graph",
    "learners": ".treecv.learners",
    "models": ".models",
    "plots": ".plots",
}
_LAZY_NAMES = {
    name: module
    for module, names in {
        ".beyond.certify": "Certificate NotCertified certify",
        ".beyond.choice": "choose",
        ".beyond.cv_gradient": "cv_gradient",
        ".beyond.from_scratch": "from_scratch",
        ".beyond.influence": "most_influential robustness_interval",
        ".beyond.leave_future_out": "leave_future_out",
        ".beyond.measures": "influence",
        ".beyond.preference": "same_choice",
        ".beyond.tune": "tune",
        ".rows": "Examples",
        ".sklearn": "approx_cross_val_predict approx_cross_validate",
        ".sklearn.tune": "approx_tune",
        ".adapters.crfsuite": "FeatureCRF from_crfsuite",
        ".adapters.hmmlearn": "from_hmmlearn",
        ".adapters.jax": "from_jax",
        ".adapters.torch": "from_torch",
    }.items()
    for name in names.split()
}
_EAGER = """
    Model EstimatingEquation Fit CVResult Folds Derivatives IncrementalLearner CompiledLearner
    fit fit_at fit_path folds weighting derivatives_of treecv kfold ladder
    no_adjustment infinitesimal_jackknife frozen_newton newton_step exact as_printed linearised
    compare_methods compare_models relative_errors theta_errors
    check_model check_result refit_unreliable difference_estimate
"""

# By a part of the lazy module's name: the package that it cannot be imported without.
_NEEDED = {"jax": "jax", "plots": "matplotlib", "sklearn": "sklearn", "torch": "torch"}


def _is_here(module):
    needed = [package for part, package in _NEEDED.items() if part in module.split(".")]
    return all(map(find_spec, needed))


# `help` and `import *` load every name: those whose package is missing are left out.
_HERE = [name for name, module in (_LAZY_MODULES | _LAZY_NAMES).items() if _is_here(module)]
__all__ = [*_EAGER.split(), *_HERE]


def __getattr__(name):
    """Load a lazy module or name when it is first asked for."""
    if name in _LAZY_MODULES:
        return import_module(_LAZY_MODULES[name], __name__)
    if name in _LAZY_NAMES:
        return getattr(import_module(_LAZY_NAMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*__all__, "__version__"]
