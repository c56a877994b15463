"""Every public name is attacked, or left out for a reason that is written here."""

import inspect
import re
from dataclasses import fields, is_dataclass

import pytest
from attack.calls import CALLS

import acvlib as acv
from acvlib.inference import chain

MODULES = {
    "acv": acv,
    "bootstrap": acv.bootstrap,
    "chain": chain,
    "folds": acv.folds,
    "graph": acv.graph,
    "learners": acv.learners,
    "models": acv.models,
    "plots": acv.plots,
    "weighting": acv.weighting,
}
RESULT = "the library makes it, and users read it"
USERS = "a protocol or a base class: users write what is called"
RAISED = "an exception"
ANNOTATION = "says how an argument is checked: tests/test_declared.py"
DRAWN = "draws what it is given: matplotlib says what is wrong with it"
LEFT_OUT = {
    "chain.smooth_finite": "hot: engines call it; `smooth` checks for the user",
    "acv.CompiledLearner": "its fields go to numba kernels of the user's; its methods are attacked",
    "acv.Derivatives": "hot: engines call it, after methods have checked",
    "acv.EstimatingEquation": USERS,
    "acv.from_jax": "JAX does not survive a fork: tests/adapters has its odd inputs",
    "acv.from_torch": "as from_jax, with the same checks",
    "acv.IncrementalLearner": USERS,
    "acv.Certificate": RESULT,
    "acv.NotCertified": RAISED,
    "acv.Model": USERS,
    "folds.Fold": ANNOTATION,
    "folds.ModelFolds": ANNOTATION,
    "folds.WHOLE": "a constant",
    "graph.EliminationOrder": RESULT,
    "graph.Sums": RESULT,
    "graph.TooWide": RAISED,
    "graph.check_width": "attacked through HiddenMRF, which checks what it is given",
    "graph.expansion": "hot: the derivatives of HiddenMRF call it",
    "graph.in_one_order": "attacked through HiddenMRF",
    "models.CRFParams": RESULT,
    "models.EmptyState": RAISED,
    "models.FAMILIES": "a constant",
    "models.Family": USERS,
    "models.ImpossibleSequence": RAISED,
    "models.HMMParams": RESULT,
    "models.Islands": RAISED,
    "models.NoFiniteOptimum": RAISED,
    "models.TrafficParams": RESULT,
    "plots.Style": RESULT,
    "plots.series": DRAWN,
    "weighting.FactorWeights": RESULT,
    "weighting.OfSites": ANNOTATION,
}
ASKED = "fits and exact folds call it, at their own optimum"
INNER = "hot: the derivatives of the model call it, with its own params"
METHODS_LEFT_OUT = {
    "Fit.warn_unconverged": ASKED,
    "check_folds": ASKED,
    "check_optimum": ASKED,
    "check_refits": ASKED,
    "further_starts": ASKED,
    "restart_points": "attacked through choose, which asks for them",
    "CVResult.to_frame": "no arguments; attacked as `CVResult`",
    "Folds.pick": "hot: derivatives call it with the losses of these folds",
    "Folds.split": "hot: certificates call it with the losses of these folds",
    "Folds.same_as": "compare calls it with the folds of two results",
    "GLM.balanced_weights": INNER,
    "GLM.ridge": "its objective calls it",
    "GraphAffinity.entries": INNER,
    "GraphAffinity.product": INNER,
    "GraphAffinity.subset": INNER,
    "GraphPosterior.marginals": "no arguments; attacked as `graph.GraphPosterior`",
    "HMM.join": INNER,
    "HMM.log_densities_of": INNER,
    "HMM.params_of_labels": "initial_params calls it, with labels of its own",
    "HMM.pieces": "no arguments",
    "HMM.split": INNER,
    "HMM.starting_points": "hot: starts by EM call it",
    "HMM.packed": INNER,
    "HMM.prior_slopes": INNER,
    "HiddenMRF.potentials": INNER,
    "HiddenMRF.weighted_potentials": INNER,
    "ManifoldEnergy.left_out": INNER,
    "ManifoldEnergy.matrix": INNER,
    "ManifoldEnergy.value": INNER,
    "RBFAffinity.entries": INNER,
    "RBFAffinity.subset": INNER,
    "TrafficPrior.gradient": INNER,
    "GLM.predictors": INNER,
    "GLM.standard_ridge": INNER,
    "TrafficPrior.hessian": INNER,
    "TrafficPrior.negative_log_density": INNER,
}
HMMS = ("Gaussian", "AutoRegressive", "Neural", "Categorical", "Poisson", "Mixture", "GLM")
ALIASES = {f"{name}HMM": "HMM" for name in HMMS}


def public_names(label):
    """The names of a module that are its own, or that it hands on."""
    module = MODULES[label]
    members = vars(module).items()
    own = [name for name, value in members if _module(value).startswith(module.__name__)]
    lazy = getattr(module, "_LAZY_NAMES", ())  # more than in __all__ where a package is not here
    names = dict.fromkeys([*getattr(module, "__all__", own), *lazy])
    return [n for n in names if n[0] != "_" and not inspect.ismodule(brought(module, n))]


def brought(module, name):
    """A member of a module; None where it needs a package that is not here, as from_torch does."""
    try:
        return getattr(module, name)
    except ImportError:
        return None


def _module(value):
    return getattr(value, "__module__", None) or ""


def words(name):
    """`GLM gaussian.objective`: all words of the name of a call."""
    return set(re.split(r"[ .]", name))


@pytest.mark.parametrize("label", MODULES)
def test_every_public_name_is_attacked_or_left_out_with_a_reason(label):
    attacked = set().union(*map(words, CALLS))
    names = public_names(label)
    missing = [n for n in names if n not in attacked and f"{label}.{n}" not in LEFT_OUT]
    assert names
    assert not missing, f"add calls of {missing} to tests/attack/calls"


def test_what_is_left_out_is_there_and_not_attacked():
    attacked = set().union(*map(words, CALLS))
    for name in LEFT_OUT:
        label, own = name.split(".")
        assert own in public_names(label), name
        assert own not in attacked, name


def public_methods(cls):
    """The functions of a class and of its bases in acvlib, without its fields and properties."""
    stored = {field.name for field in fields(cls)} if is_dataclass(cls) else set()
    for name, value in inspect.getmembers(cls, inspect.isfunction):
        if name[0] != "_" and name not in stored and _module(value).startswith("acvlib"):
            yield name


def classes():
    """The public classes that are not left out."""
    for label in ("acv", "models", "graph"):
        for name in public_names(label):
            cls = brought(MODULES[label], name)
            if inspect.isclass(cls) and f"{label}.{name}" not in LEFT_OUT:
                yield cls


@pytest.mark.parametrize("cls", list(classes()), ids=lambda cls: cls.__name__)
def test_every_public_method_is_attacked_or_left_out_with_a_reason(cls):
    attacked = set()
    for name in CALLS:
        *owners, method = re.split(r"[ .]", name)
        attacked |= {(ALIASES.get(owner, owner), method) for owner in owners}
    own = ALIASES.get(cls.__name__, cls.__name__)
    for method in public_methods(cls):
        known = (own, method) in attacked
        assert known or method in METHODS_LEFT_OUT or f"{own}.{method}" in METHODS_LEFT_OUT, method
