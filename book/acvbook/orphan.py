"""A step of the build does not outlive the build: no kernel runs on that could write later."""

import os
import threading
import time
from collections.abc import Callable

import psutil

EVERY = 0.2  # seconds


def end_with_parent(clean_up: Callable[[], object] = lambda: None) -> None:
    """End this process and its descendants, after `clean_up`, as soon as its parent has ended."""
    threading.Thread(target=_watch, args=(os.getppid(), clean_up), daemon=True).start()


def _watch(parent, clean_up):
    while os.getppid() == parent:
        time.sleep(EVERY)
    for process in psutil.Process().children(recursive=True):
        process.kill()
    clean_up()
    os._exit(1)
