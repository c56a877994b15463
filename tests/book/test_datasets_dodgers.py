"""The Dodgers series is checked and cut, and its module loads in little time."""

import subprocess
import sys

import numpy as np
import pytest
from acvbook import datasets


@pytest.fixture(scope="module")
def simulated():
    return datasets.simulate_dodgers(np.random.default_rng(0))


def test_head(simulated):
    head = simulated.head(500)
    assert (len(head), len(head.timestamp), head.in_game.size, head.day.size) == (500,) * 4
    assert (head.provenance, head.sha256) == ("simulated", simulated.sha256)
    assert repr(simulated) == "Dodgers(50,400 five-minute counts, 2,903 missing, simulated)"
    for n in (0, 50_401):
        with pytest.raises(ValueError, match=rf"head\({n}\) of a series of 50400"):
            simulated.head(n)


def test_series_is_checked(simulated):
    with pytest.raises(ValueError, match=r"\(3, 50400, 50400\)"):
        datasets.Dodgers(
            np.array([1, 2, 3]), simulated.timestamp, simulated.in_game, "simulated", ""
        )
    with pytest.raises(ValueError, match="a count is -2"):
        datasets.Dodgers(
            np.array([-2]), simulated.timestamp[:1], simulated.in_game[:1], "simulated", ""
        )


def test_import_is_light():
    code = "import sys, acvbook.datasets as d; d.data_sets(); "
    code += "print({'pandas', 'pooch'} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"
