"""The library reference, and the page of what is exact: every door is there, and what they name."""

import inspect
import re
from collections import Counter

import api_pages
import chapters
import plain_docstrings
import pytest
from names_in_text import full_name
from places import ROOT

import acvlib as acv
from acvlib.model import ModelDefaults


def object_of(place):
    module, _, name = place.rpartition(".")
    return getattr(__import__(module, fromlist=[name]), name)


def test_every_public_name_is_on_one_page():
    values = {name: getattr(acv, name) for name in acv.__all__}
    for name, module in [*values.items()]:
        if inspect.ismodule(module):
            names = api_pages.public(module)
            values |= {f"{name}.{inner}": getattr(module, inner) for inner in names}
    entries = [entry for page in api_pages.PAGES.values() for entry in page["entries"]]
    places = [place for entry in entries for place in api_pages.places_of(entry)]
    times = Counter(map(object_of, places))
    public = {name: value for name, value in values.items() if callable(value)}
    assert len(public) > 100
    assert {name: times[value] for name, value in public.items() if times[value] != 1} == {}
    assert [value for value, number in times.items() if number > 1] == []


def test_the_contents_are_all_chapters_which_have_frames_and_all_pages_of_the_reference():
    names = {path.stem for path in (ROOT / "notebooks").glob("*.py")}
    assert set(chapters.FRAMES) == names
    listed = re.findall(r"file: (\S+)", (ROOT / "book/_toc.yml").read_text("utf-8"))
    assert [name for name in listed if name in names] == list(chapters.FRAMES)
    assert [name for name in listed if name.startswith("api_")] == list(api_pages.PAGES)


def test_a_page_shows_functions_classes_and_exceptions_and_finds_names_that_are_exported():
    page = {"title": "T", "about": "A.", "entries": ["acvlib.models: GLM, EmptyState, GaussianHMM"]}
    text = api_pages.text(page)
    assert ".. autoclass:: acvlib.models.GLM\n   :members:" in text
    assert ".. autoexception:: acvlib.models.EmptyState" in text
    assert ".. autofunction:: acvlib.models.GaussianHMM" in text
    for text in ("newton_step", "acv.newton_step", "acvlib.newton_step()"):
        assert full_name(text) == ["acvlib.newton_step", "acvlib.methods.ladder.newton_step"]
    assert full_name("k_fold")[0] == "acvlib.folds.k_fold"
    assert full_name("GLM")[0] == "acvlib.models.GLM"
    assert full_name("numpy") == full_name("x = 1") == []


DOCSTRING = """Solve H x = b_i for many x_i of `rows`.

Parameters
----------
rows : (n, D), one | two
    or three
damping : added to H's diagonal

Raises
------
IndefiniteHessian

Source: nobody et al. (2020)."""
SHOWN = r"""Solve H x = b\_i for many x\_i of ``rows``.

**Parameters**

- ``rows`` : (n, D), one \| two
  or three
- ``damping`` : added to H's diagonal

**Raises**

- IndefiniteHessian

Source: nobody et al. (2020)."""


PAGES = {DOCSTRING: SHOWN, ">>> from a_b import c_d\n3": ">>> from a_b import c_d\n3"}
PAGES["| name | it is |\n| a   b | C |beta|^2 |"] = (
    ".. list-table::\n   :header-rows: 1\n\n"
    "   * - name\n     - it is\n   * - a   b\n     - C \\|beta\\|^2"
)
RETURNS = "Returns\n-------\nA dict of\nmany, with `x`."
PAGES[RETURNS] = "**Returns**\n\nA dict of\nmany, with ``x``."


@pytest.mark.parametrize(("written", "shown"), PAGES.items())
def test_sections_become_lists_and_examples_tables_and_sentences_stay_what_they_are(written, shown):
    lines = written.splitlines()
    plain_docstrings.rewrite(None, "class", "f", None, None, lines)
    assert lines == shown.splitlines()


PAGE = (ROOT / "book" / "what_is_exact.md").read_text()
DOORS = """
approx_cross_validate GaussianHMM HMM AutoRegressiveHMM CategoricalHMM PoissonHMM
models.hmm.families.NegativeBinomialHMM MixtureHMM GLMHMM from_hmmlearn PoissonTraffic HiddenMRF
LinearChainCRF FeatureCRF from_crfsuite GLM SemiSupervised PairwiseLinear treecv kfold Examples
check_result refit_unreliable certify Certificate compare_models compare_methods choose
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


def test_every_front_door_has_a_heading_and_a_name_that_does_not_exist_is_found():
    headed = {name for heading in SECTIONS for name in CODE.findall(heading)}
    assert headed == set(DOORS.split())
    assert all(found(door) is not None for door in headed)
    wrong = ["compare", "folds.time_series", "kfold", "randomise", 'unreliable="mend"']
    found_wrong = unknown("Scikit-learn: `approx_cross_validate`", wrong)
    assert found_wrong == [name for name in wrong if name != "kfold"]


@pytest.mark.parametrize("heading", SECTIONS)
def test_each_door_has_one_table_of_three_rows_whose_names_exist(heading):
    """A name is an object of the library, or a parameter of one that its section names."""
    rows = re.findall(r"^\* - (.+)$", SECTIONS[heading], re.MULTILINE)
    assert rows == ["Exact", "Approximate", "Left out"]
    assert unknown(heading, CODE.findall(SECTIONS[heading])) == []
