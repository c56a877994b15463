"""The page of what is exact: every front door is on it, and what it names is in the library."""

import inspect
import re

import pytest
from places import ROOT

import acvlib as acv
from acvlib.model import ModelDefaults

PAGE = (ROOT / "book" / "what_is_exact.md").read_text()
DOORS = """
approx_cross_validate GaussianHMM HMM AutoRegressiveHMM CategoricalHMM PoissonHMM
MixtureHMM GLMHMM from_hmmlearn PoissonTraffic HiddenMRF LinearChainCRF FeatureCRF
from_crfsuite GLM SemiSupervised PairwiseLinear treecv kfold Examples check_result
refit_unreliable certify Certificate compare_models compare_methods choose
leave_future_out influence most_influential robustness_interval tune cv_gradient
from_jax from_torch Model EstimatingEquation
"""
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
SECTIONS = dict(re.findall(r"^## (.+)\n([^#]+)", PAGE, re.MULTILINE))


def found(path):
    """The object of that dotted name, below the library or below its models."""
    first, *rest = path.split(".")
    for root in (acv, acv.models):
        value = getattr(root, first) if first in root.__all__ else None
        for name in rest:
            value = getattr(value, name, None)
        if value is not None:
            return value
    return None


def unknown(heading, names):
    """Those of the names that neither the library nor a parameter of a function here has."""
    objects = [found(name) for name in CODE.findall(heading) + names]
    functions = [value for value in objects if callable(value)]
    settings = set(vars(ModelDefaults)).union(*map(parameters, functions))
    sources = "".join(inspect.getsource(inspect.getmodule(function)) for function in functions)
    wrong = []
    for name in names:
        word, equals, value = name.partition("=")
        exists = word in settings or (found(word) is not None and not equals)
        spelt = not value.startswith('"') or value in sources or hasattr(acv, value.strip('"'))
        if not (exists and spelt):
            wrong.append(name)
    return wrong


def parameters(function):
    try:
        return set(inspect.signature(function).parameters)
    except ValueError:
        return set()


def test_every_front_door_has_a_heading():
    headed = {name for heading in SECTIONS for name in CODE.findall(heading)}
    assert headed == set(DOORS.split())
    assert all(found(door) is not None for door in headed)


@pytest.mark.parametrize("heading", SECTIONS)
def test_each_door_has_one_table_of_three_rows_whose_names_exist(heading):
    """A name is an object of the library, or a parameter of one that its section names."""
    rows = re.findall(r"^\* - (.+)$", SECTIONS[heading], re.MULTILINE)
    assert rows == ["Exact", "Approximate", "Left out"]
    assert unknown(heading, CODE.findall(SECTIONS[heading])) == []


def test_a_name_that_does_not_exist_is_found():
    wrong = ["compare", "folds.time_series", "kfold", "randomise", 'unreliable="mend"']
    found_wrong = unknown("Scikit-learn: `approx_cross_validate`", wrong)
    assert found_wrong == [name for name in wrong if name != "kfold"]
