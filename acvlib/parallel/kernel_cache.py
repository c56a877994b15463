"""Where numba keeps compiled kernels if neither the installation nor the home can be written."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path


def ensure() -> None:
    """Give numba a folder for this process and its workers, where it would find none and fail.

    Nothing is done where `NUMBA_CACHE_DIR` is set, or one of numba's own places is writable.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    if _is_writable(Path(__file__).parent.parent) or _is_writable(_user_cache()):
        return
    folder = tempfile.mkdtemp(prefix="acvlib-kernels-")  # of nobody else: its content is executed
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:  # which has read the variable already
        sys.modules["numba"].config.CACHE_DIR = folder


def _user_cache():
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and no user of this number
        home = Path("/nonexistent")
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")


def _is_writable(folder):
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)
