"""The library reference: each public name once, names in text that lead to it, and docstrings."""

import inspect
import re
from collections import Counter

import api_pages
import plain_docstrings
import pytest
from names_in_text import full_name
from places import ROOT

import acvlib as acv


def shown():
    """Every object of the reference, as often as it is shown."""
    entries = [entry for page in api_pages.PAGES.values() for entry in page["entries"]]
    places = [place for entry in entries for place in api_pages.places_of(entry)]
    return Counter(object_of(place) for place in places)


def object_of(place):
    module, _, name = place.rpartition(".")
    return getattr(__import__(module, fromlist=[name]), name)


def test_every_public_name_is_on_one_page():
    values = {name: getattr(acv, name) for name in acv.__all__}
    for name, module in [*values.items()]:
        if inspect.ismodule(module):
            names = api_pages.public(module)
            values |= {f"{name}.{inner}": getattr(module, inner) for inner in names}
    times = shown()
    public = {name: value for name, value in values.items() if callable(value)}
    assert len(public) > 100
    assert {name: times[value] for name, value in public.items() if times[value] != 1} == {}
    assert [value for value, number in times.items() if number > 1] == []


def test_every_page_is_in_the_contents():
    listed = re.findall(r"file: (api_\w+)", (ROOT / "book/_toc.yml").read_text("utf-8"))
    assert listed == list(api_pages.PAGES)


def test_a_page_shows_functions_classes_and_exceptions():
    page = {"title": "T", "about": "A.", "entries": ["acvlib.models: GLM, EmptyState, GaussianHMM"]}
    text = api_pages.text(page)
    assert ".. autoclass:: acvlib.models.GLM\n   :members:" in text
    assert ".. autoexception:: acvlib.models.EmptyState" in text
    assert ".. autofunction:: acvlib.models.GaussianHMM" in text


def test_names_in_text_are_those_that_the_library_exports():
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


def test_sections_become_lists_and_nothing_else_is_markup():
    lines = DOCSTRING.splitlines()
    plain_docstrings.rewrite(None, "function", "f", None, None, lines)
    assert lines == SHOWN.splitlines()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (">>> from a_b import c_d\n3", ">>> from a_b import c_d\n3"),
        (
            "| name | it is |\n| a   b | C |beta|^2 |",
            ".. list-table::\n   :header-rows: 1\n\n"
            "   * - name\n     - it is\n   * - a   b\n     - C \\|beta\\|^2",
        ),
        (
            "Returns\n-------\nA dict of\nmany, with `x`.",
            "**Returns**\n\nA dict of\nmany, with ``x``.",
        ),
    ],
)
def test_examples_tables_and_sentences_stay_what_they_are(written, shown):
    lines = written.splitlines()
    plain_docstrings.rewrite(None, "class", "f", None, None, lines)
    assert lines == shown.splitlines()
