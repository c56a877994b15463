"""What is said while numba compiles kernels, which takes up to half a minute once a machine."""

import os
import sys
import time

from numba.core import event

SECONDS = 2.0  # of compiling, after which it is announced
MESSAGE = "acvlib is compiling its kernels: up to half a minute, {}."


def announce() -> None:
    """Say once that kernels take long to compile, where they do: on a terminal or in a notebook."""
    shown = sys.stderr.isatty() or "ipykernel" in sys.modules
    if shown and not any(map(os.environ.get, ("CI", "ACVLIB_OUTPUT"))):
        event.register("numba:compile", _Announcer())


class _Announcer(event.Listener):
    """How long numba has been compiling, kernels that call others among them."""

    def __init__(self):
        self.depth = 0
        self.began = 0.0
        self.spent = 0.0
        self.said = False

    def on_start(self, event):
        if not self.depth:
            self.began = time.monotonic()
        self.depth += 1
        own = event.data["dispatcher"].py_func.__module__.startswith("acvlib")
        if own and not self.said and self._seconds() > SECONDS:
            self.said = True
            print(MESSAGE.format(_kept()), file=sys.stderr, flush=True)

    def on_end(self, event):
        self.depth -= 1
        if not self.depth:
            self.spent = self._seconds()

    def _seconds(self):
        return self.spent + time.monotonic() - self.began


def _kept():
    temporary = "acvlib-kernels-" in os.environ.get("NUMBA_CACHE_DIR", "")
    return "in each process, as no cache can be written" if temporary else "once on this machine"
