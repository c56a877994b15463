"""Kernels compile, for their process alone, where neither installation nor home can be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

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


no_cache = shutil.ignore_patterns("__pycache__")
