"""What fixed steps leave out is small beside the error of cross-validation, and is measured so."""

import numpy as np
import pytest
from acvbook.studies import fixed_steps


@pytest.mark.parametrize("name", list(fixed_steps.pipelines()))
def test_gaps(name):
    gaps = fixed_steps.gaps(fixed_steps.pipelines()[name], 80, np.random.default_rng(0))
    assert abs(gaps["as fitted"]) < gaps["standard error"]
    assert abs(gaps["approximate"]) < gaps["baseline"] / 3
    assert gaps["baseline"] > 0.0  # scores of rows that were fitted are too good


def test_the_table_has_medians(monkeypatch):
    drawn = iter([{"baseline": value} for value in (1.0, 5.0, 2.0) * 4])
    monkeypatch.setattr(fixed_steps, "gaps", lambda *_: next(drawn))
    rows = fixed_steps.table((50,), 3, np.random.default_rng(0))
    assert [row["baseline"] for row in rows] == [2.0] * 4
