"""The library reference: each public name once, and links between it and the chapters."""

import inspect
import json
import re
from collections import Counter
from pathlib import Path

import api_pages
import pytest
from link_names import Names, Reference, link

import acvlib as acv

ROOT = Path(__file__).parent.parent.parent


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
    assert len(public) > 120
    assert {name: times[value] for name, value in public.items() if times[value] != 1} == {}


def test_nothing_is_shown_twice():
    assert [value for value, times in shown().items() if times > 1] == []


def test_every_page_is_in_the_contents():
    listed = re.findall(r"file: (api_\w+)", (ROOT / "book/_toc.yml").read_text("utf-8"))
    assert listed == list(api_pages.PAGES)


def test_overview_has_every_name():
    overview = api_pages.contents()
    assert "{py:obj}`k_fold <acvlib.folds.k_fold>`" in overview
    assert "[Folds](api_folds.md)" in overview


def test_a_page_shows_functions_classes_and_exceptions():
    page = {"title": "T", "about": "A.", "entries": ["acvlib.models: GLM, Islands, ranking"]}
    text = api_pages.text(page)
    assert ".. autoclass:: acvlib.models.GLM\n   :members:" in text
    assert ".. autoexception:: acvlib.models.Islands" in text
    assert ".. autofunction:: acvlib.models.ranking" in text


CODE = """import acvlib as acv
from acvlib import bootstrap
from acvlib.models import GLM as Regression
import numpy as np
exact = 1
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acv", acv),
        ("bootstrap", acv.bootstrap),
        ("Regression", acv.models.GLM),
        ("np", None),
        ("GLM", None),
        ("exact", None),
    ],
)
def test_code_means_what_it_imports(name, value):
    assert Names(CODE).of_code(name) is value


@pytest.mark.parametrize(
    ("name", "value"),
    [("Regression", acv.models.GLM), ("newton_step", acv.newton_step), ("exact", None)],
)
def test_text_means_what_the_library_exports_too(name, value):
    """Unless the page's code gives the name to something of its own."""
    assert Names(CODE).of_text(name) is value


ENTRY = '<dl><dt class="sig sig-object py" id="{}">x</dt><dd><p>Do this.</p><p>More.</p></dd></dl>'
CHAPTER = (
    "<title>Chapter &#8212; Book</title><article><p>"
    '<code class="docutils literal notranslate"><span class="pre">newton_step</span></code></p>'
    '<span class="n">acv</span><span class="o">.</span><span class="n">folds</span>'
    '<span class="o">.</span><span class="n">k_fold</span><span class="p">(</span>'
    '<span class="n">k_fold</span></article>'
)


@pytest.fixture
def built(tmp_path):
    """(folder of pages, folder of their sources), linked."""
    pages, source = tmp_path / "pages", tmp_path / "source"
    for folder in (pages, source):
        folder.mkdir()
    places = ("acvlib.folds.k_fold", "acvlib.methods.newton_step.newton_step", "acvlib.fit.fit")
    (pages / "api_all.html").write_text("".join(map(ENTRY.format, places)), "utf-8")
    (pages / "01_a.html").write_text(CHAPTER, "utf-8")
    cells = [{"cell_type": "code", "source": ["import acvlib as acv"]}]
    (source / "01_a.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")
    link(pages, source)
    return pages


def test_code_and_text_lead_to_the_reference(built):
    page = (built / "01_a.html").read_text("utf-8")
    place = "acvlib.methods.newton_step.newton_step"
    assert f'id="use-{place}" href="api_all.html#{place}"><code' in page
    assert 'href="api_all.html#acvlib.folds.k_fold"><span class="n">acv</span>' in page
    assert page.count('class="to-api"') == 2, "a bare name in code is not the library's"


def test_entries_lead_back(built):
    page = (built / "api_all.html").read_text("utf-8")
    link = '<a href="01_a.html#use-acvlib.folds.k_fold">Chapter</a>'
    assert f'<p>Do this.</p><p class="used-in">Used in {link}.</p><p>More.</p>' in page
    assert page.count("used-in") == 2


def test_methods_are_found_through_their_class(built):
    reference = Reference(built)
    assert reference.place(acv, ["folds", "k_fold", "__name__"]) == "acvlib.folds.k_fold"
    assert reference.place(acv, ["nothing"]) is None
