"""A missing extra is an error that says how to install it."""

import sys

import pytest

from acvlib.extras import require


def test_an_installed_module_is_returned():
    assert require("json.decoder", extra="tables") is sys.modules["json.decoder"]


@pytest.mark.parametrize("name", ["no_such_package", "no_such_package.part"])
def test_a_missing_package_names_its_extra(name):
    message = r"needs no_such_package: pip install 'acvlib\[tables\]'"
    with pytest.raises(ImportError, match=message):
        require(name, extra="tables")


def test_a_missing_part_of_an_installed_package_is_its_own_error():
    with pytest.raises(ModuleNotFoundError, match="json.no_such_part"):
        require("json.no_such_part", extra="tables")
