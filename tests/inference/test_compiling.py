"""Long compiling is announced once; kernels compile, too, where nothing can be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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


SCRIPT = """
import os, sys
if sys.argv[1] == "numba first":
    import numba
import acvlib
from acvlib.inference import chain
print(acvlib.__file__)
print(os.environ.get("NUMBA_CACHE_DIR"))
"""
# Root is made to keep to the rights of files, as others must.
OBEYING = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []


@pytest.mark.skipif(bool(OBEYING) and not shutil.which("setpriv"), reason="root writes everywhere")
@pytest.mark.parametrize("first", ["acvlib first", "numba first"])
def test_import_from_where_nothing_can_be_written(tmp_path, first):
    no_cache = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "acvlib", tmp_path / "acvlib", ignore=no_cache)
    (tmp_path / "home").mkdir()
    folders = [tmp_path / "home", *(path for path in tmp_path.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    unset = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}
    settings = {key: value for key, value in os.environ.items() if key not in unset}
    settings |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path)}
    command = [*OBEYING, sys.executable, "-c", SCRIPT, first]
    try:
        output = subprocess.check_output(command, env=settings, cwd="/", text=True)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    package, cache = output.splitlines()
    assert Path(package).parent == tmp_path / "acvlib"
    assert "acvlib-kernels-" in cache
    assert not Path(cache).exists()  # it went with its process
