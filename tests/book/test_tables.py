"""Tables for readers."""

import pandas as pd
import pytest
from acvbook.tables import number, readable, words


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("theta_error", "parameter error (SE)"),
        ("r_loss.newton_step", "R of losses, one Newton step"),
        ("em_steps", "em steps"),
        ("AR(1)", "AR(1)"),
        ("(0.0, 5.0]", "(0.0, 5.0]"),
    ],
)
def test_names_are_put_in_words(name, said):
    assert words(name) == said


@pytest.mark.parametrize(
    ("cell", "decimals", "shown"),
    [
        ("0.123456", 0, "0.123"),
        ("52871.8241", 0, "52,872"),
        ("1.8526", 4, "1.8526"),
        ("0.98", 4, "0.98"),
        ("1.234567e-05", 0, "1.23e-05"),
        ("-0.000", 0, "0"),
        ("12", 3, "12"),
        ("nan", 3, "nan"),
        ("two", 3, "two"),
    ],
)
def test_numbers_have_three_digits_or_those_of_their_column(cell, decimals, shown):
    assert number(cell, decimals) == shown


def test_digits_tell_the_rows_of_a_column_apart():
    frame = pd.DataFrame({"loss": [1.85261, 1.85103, 1.81802], "seconds": [12.3456, 0.0123, 1.0]})
    html = readable(frame.to_html())
    assert all(f"<td>{shown}</td>" in html for shown in ("1.8526", "1.8510", "0.0123", "12.3"))
