"""Exact sums over hidden states, chains and graphs, by kernels that numba compiles.

That takes up to half a minute once a machine, and is announced where someone may be waiting.
"""

import os
import sys
import threading
import time

from numba.core import event

SECONDS = 2.0  # of compiling, after which it is announced
MESSAGE = "acvlib is compiling the kernels{}: up to half a minute, {}."


def announce() -> None:
    """Say once that kernels take long to compile, where they do: on a terminal or in a notebook."""
    shown = sys.stderr.isatty() or "ipykernel" in sys.modules
    if shown and not any(map(os.environ.get, ("CI", "ACVLIB_OUTPUT"))):
        event.register("numba:compile", Announcer())


class Announcer(event.Listener):
    """Speak when acvlib's kernels, and those they call, have been compiled for `SECONDS`."""

    def __init__(self):
        self.depth = 0
        self.spent = 0.0
        self.timer = None

    def on_start(self, event: event.Event) -> None:
        self.depth += 1
        own = event.data["dispatcher"].py_func.__module__.startswith("acvlib")
        if own and self.timer is None and self.spent < SECONDS:
            self.began = time.monotonic()
            self.timer = threading.Timer(SECONDS - self.spent, self.say, [threading.get_ident()])
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, event: event.Event) -> None:
        self.depth -= 1
        if not self.depth and self.timer:
            self.timer.cancel()
            self.timer = None
            self.spent += time.monotonic() - self.began

    def say(self, thread: int) -> None:
        self.spent = SECONDS  # once
        name = _model_of(sys._current_frames().get(thread))
        how_often = "once on this machine"
        if "acvlib-kernels-" in os.environ.get("NUMBA_CACHE_DIR", ""):
            how_often = "in each process, as no cache can be written"
        text = MESSAGE.format(f" of {name}" if name else "", how_often)
        print(text, file=sys.stderr, flush=True)


def _model_of(frame):
    """The class of the model that the calls of a stack work for, the innermost first; or None."""
    while frame:
        for each in frame.f_locals.get("self"), frame.f_locals.get("model"):
            if hasattr(type(each), "heldout_loss"):
                return type(each).__name__
        frame = frame.f_back
    return None


announce()
