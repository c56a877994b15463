"""Docstrings in the library reference: plain text, code in backticks, sections as lists."""

import plain_docstrings
import pytest

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
