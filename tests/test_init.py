"""What a newcomer types first: the version, completion, help, and `import *`."""

import pydoc
import re
import subprocess
import sys

import pytest
from check_release import faults
from places import ROOT

import acvlib as acv
from acvlib.checks import require

WITHOUT = """
import sys
sys.modules |= dict.fromkeys(["jax", "matplotlib", "sklearn", "torch"])  # as if not installed
import pydoc
import acvlib
from acvlib import *
assert "approx_tune" not in dir(acvlib) and "treecv" in dir(acvlib)
assert "from_hmmlearn(" in pydoc.render_doc(acvlib, renderer=pydoc.plaintext)
try:
    acvlib.approx_tune
except ImportError:
    print("refused")
"""


def test_version_is_the_one_that_is_cited():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)[1]
    assert acv.__version__ == cited


def test_a_release_names_one_version_everywhere():
    changelog, citation = "## 1.2.3 (2026-11-26)\n", "version: 1.2.3\ndate-released: 2026-11-26\n"
    assert faults("1.2.3", changelog, citation, {}, ["v1.2.3"]) == []
    assert faults("1.2.3", changelog, citation, {}, []) == []
    for version, tags, count in (("1.2.4", [], 2), ("1.2.3", ["v1.2.4"], 1)):
        assert len(faults(version, changelog, citation, {}, tags)) == count
    assert len(faults("1.2.3", "## 1.2.3 (unreleased)", "version: 1.2.3", {"version": 1}, [])) == 3


def test_dir_shows_all_public_names_and_no_others():
    assert dir(acv) == sorted([*acv.__all__, "__version__"])
    assert {"models", "plots", "treecv", "approx_tune", "from_crfsuite"} <= set(dir(acv))
    with pytest.raises(AttributeError, match="'acvlib' has no attribute 'newton'"):
        _ = acv.newton


@pytest.fixture(scope="module")
def shown():
    """What help(acv) shows below the docstring, by a plain terminal."""
    text = pydoc.render_doc(acv, renderer=pydoc.plaintext)
    return text.replace(acv.__doc__.strip(), "").partition("PACKAGE CONTENTS")[2]


@pytest.mark.parametrize("name", acv.__all__)
def test_help_shows_every_public_name(shown, name):
    assert re.search(rf"\b{name}\b", shown)


def test_the_docstring_names_what_there_is():
    for line in re.findall(r"^(\w[\w*, ]{19}) \w", acv.__doc__, re.M):
        for name in line.replace(",", "").split():
            known = [*acv.__all__, *acv._LAZY_MODULES, *acv._LAZY_NAMES]  # without extras, too
            assert any(re.fullmatch(name.replace("*", ".*"), each) for each in known)


def test_without_extras_help_and_star_leave_out_what_needs_them():
    said = subprocess.check_output([sys.executable, "-c", WITHOUT], cwd=ROOT, text=True)
    assert said.strip() == "refused"


def test_a_module_is_returned_or_its_package_names_its_extra():
    assert require("json.decoder", extra="tables") is sys.modules["json.decoder"]
    message = r"needs no_such_package: pip install 'acvlib\[tables\]'"
    for name in ("no_such_package", "no_such_package.part"):
        with pytest.raises(ImportError, match=message):
            require(name, extra="tables")
    with pytest.raises(ModuleNotFoundError, match="json.no_such_part"):
        require("json.no_such_part", extra="tables")
