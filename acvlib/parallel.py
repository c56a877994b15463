"""Threads and progress: how many workers there are, how many threads BLAS has, what is shown.

joblib decides: one worker, unless `with joblib.parallel_config(n_jobs=...)` says more. BLAS threads
wait for each other and spin on after a call: they pay from `SHARED` on. And where kernels are kept.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

SHARED = 1e8  # multiplications, about five milliseconds, from which on threads of BLAS pay


def track(items: Iterable, label: str, total: int | None = None) -> Iterable:
    """Show a progress bar once two seconds have passed; none in CI or where output is recorded."""
    silent = any(map(os.environ.get, ("CI", "ACVLIB_OUTPUT")))
    return tqdm(items, desc=label, total=total, delay=2, leave=False, disable=silent)


def each_fold(function: Callable, params: np.ndarray, folds: Any, label: str) -> list:
    """[function(params, omitted sites) for each fold], by joblib's workers, with a progress bar.

    params: (D,), or a point for each of the `Folds`, (n_folds, D).
    """
    points = np.broadcast_to(params, (len(folds.sizes), params.shape[-1]))
    tasks = list(zip(points, folds.omitted, strict=True))
    if effective_n_jobs(None) > 1 and len(tasks) > 1:
        return spread(function, tasks, None, label)
    shown = track(tasks, label) if len(tasks) > 1 else tasks  # of a fit there is one
    return [function(*task) for task in shown]


def threads() -> Parallel:
    """`joblib.Parallel` in threads of this process, whatever the active backend; with its n_jobs.

    Threads are a new pool each time: one that Ctrl-C stopped midway serves nobody any more.
    """
    return Parallel(effective_n_jobs(None), backend="threading", require="sharedmem")


def in_threads(
    function: Callable, pieces: Sequence, n_threads: int | None = None, label: str = ""
) -> list:
    """Return [function(piece) for each piece], computed on plain threads, by default one a core.

    Not by joblib, which polls for results: a hundredth of a second, longer than many kernels take.
    """
    n_threads = min(n_threads or cpu_count(), len(pieces))
    shown = (lambda results: track(results, label, len(pieces))) if label else iter
    if n_threads <= 1:
        return list(shown(map(function, pieces)))
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            return list(shown(pool.map(function, pieces)))
        except BaseException:  # Ctrl-C does not wait for pieces that have not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def spread(function: Callable, tasks: Sequence[tuple], prefer: str | None, label: str) -> list:
    """Return [function(*task) for each task], done by joblib's active backend, or else `prefer`.

    What shares this process' memory runs on plain threads, as does "multiprocessing", which can
    send no functions and wait for no results one by one; other processes and clusters are joblib's.
    """
    backend, _ = get_active_backend(prefer=prefer)
    in_turn = getattr(backend, "supports_return_generator", False)
    if getattr(backend, "supports_sharedmem", False) or not in_turn:
        return in_threads(lambda task: function(*task), tasks, effective_n_jobs(None), label)
    run = Parallel(effective_n_jobs(None), prefer=prefer, return_as="generator")
    results = run(delayed(function)(*task) for task in tasks)
    return list(track(results, label, len(tasks)))


class OneThread:
    """One thread for a library while anyone is inside, counted under a lock: the last one lifts it.

    `count()` tells how many threads the library has; `limit()` makes it one and returns what puts
    the number back.
    """

    def __init__(self, count: Callable[[], int], limit: Callable[[], Callable]):
        self._count = count
        self._limit = limit
        self._lock = Lock()
        self._inside = 0

    @contextmanager
    def inside(self) -> Iterator[int]:
        """Stay inside; gives how many threads the library would have if nobody were."""
        with self._lock:
            if not self._inside:
                self._before = self._count()
                self._restore = self._limit()
            self._inside += 1
        try:
            yield self._before
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._restore()


@cache
def _blas():
    """The BLAS libraries of this process: to look for them takes longer than many kernels do."""
    return ThreadpoolController().select(user_api="blas")


one_blas_thread = OneThread(
    lambda: max((library["num_threads"] for library in _blas().info()), default=1),
    lambda: _blas().limit(limits=1).restore_original_limits,
)


def blas_for(multiplications: float) -> AbstractContextManager:
    """Put BLAS on one thread where there is less to do than is worth sharing."""
    return one_blas_thread.inside() if multiplications < SHARED else nullcontext()


def in_blas_threads(function: Callable, pieces: Sequence, label: str = "") -> list:
    """Run `in_threads`, as many as BLAS would use, each calling BLAS alone: for small pieces."""
    with one_blas_thread.inside() as n_threads:
        return in_threads(function, pieces, n_threads, label)


def pieces(stop: int, size: int, start: int = 0) -> list[slice]:
    """Return slices of at most `size` that make up start ... stop - 1."""
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]


def keep_kernels() -> None:
    """Give numba a folder of this process, where it would find none and fail."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    for place in (Path(__file__).parent, home):
        there = next(each for each in (place, *place.parents) if each.exists())
        if "NUMBA_CACHE_DIR" in os.environ or place.is_absolute() and os.access(there, os.W_OK):
            return
    folder = tempfile.mkdtemp(prefix="acvlib-kernels-")  # of nobody else: its content is executed
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:  # which has read the variable already
        sys.modules["numba"].config.CACHE_DIR = folder
