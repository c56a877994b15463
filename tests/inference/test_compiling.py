"""Long compiling is announced once, where someone may be waiting."""

import os
import subprocess
import sys

import pytest
from places import ROOT

from acvlib import inference as compiling

LOUD = {"CI", "ACVLIB_OUTPUT", "NUMBA_CACHE_DIR"}
ANNOUNCED = """
import os, pty, sys
primary, secondary = pty.openpty()
os.dup2(secondary, 2)
import numpy as np
import acvlib as acv
from acvlib import inference as compiling
compiling.SECONDS = 0.2
model = acv.models.GaussianHMM([np.random.default_rng(0).normal(size=(50, 1))], 2)
for _ in range(2):
    acv.fit(model, rng=0)
os.set_blocking(primary, False)
try:
    print(os.read(primary, 10_000).decode())
except BlockingIOError:
    print("nothing")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of its own")
def test_long_compiling_is_announced_once_on_a_terminal(tmp_path):
    settings = {key: value for key, value in os.environ.items() if key not in LOUD}
    settings |= {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ANNOUNCED]
    first, cached = (subprocess.check_output(command, env=settings, text=True) for _ in range(2))
    said = "acvlib is compiling the kernels of HMM: up to half a minute, once on this"
    assert first.count(said) == 1
    assert cached.strip() == "nothing"


@pytest.mark.parametrize(("terminal", "ci", "listeners"), [(1, "", 1), (1, "1", 0), (0, "", 0)])
def test_nothing_is_said_where_output_is_recorded(monkeypatch, terminal, ci, listeners):
    registered = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: bool(terminal))
    monkeypatch.setenv("CI", ci)
    monkeypatch.delenv("ACVLIB_OUTPUT", raising=False)
    monkeypatch.setattr(compiling.event, "register", lambda *listener: registered.append(listener))
    compiling.announce()
    assert len(registered) == listeners
