"""Law 14: the same call has the same bits, on threads, and in another process."""

import hashlib
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

from .doors import DOORS
from .law import PROFILE, cases, is_here

ASKED = list(DOORS)[:: 3 if PROFILE == "quick" else 1]
TESTS = Path(__file__).parents[1]
CHILD = """
import sys
from laws.test_bits import digest
for name in sys.argv[1:]:
    print(name + "=" + digest(name))
"""


def digest(name):
    """A checksum of all that a door says."""
    said = DOORS[name].ask(**DOORS[name].data(np.random.default_rng(1)))
    parts = [f"{key} {np.asarray(value.values).tolist()!r}" for key, value in said.items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@pytest.fixture(scope="module")
def elsewhere():
    """The same of another process, which asks in the other order."""
    paths = [str(TESTS), str(TESTS.parent)]
    code = f"import sys; sys.path[:0] = {paths!r}{CHILD}"
    run = [sys.executable, "-W", "ignore", "-c", code, *filter(is_here, reversed(ASKED))]
    lines = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split("\n")
    return dict(line.split("=") for line in lines if line)


@cases("bits", ASKED)
def test_the_same_bits(name, elsewhere):
    """With one worker there, with two here."""
    with joblib.parallel_config("threading", n_jobs=2):
        assert digest(name) == elsewhere[name]
