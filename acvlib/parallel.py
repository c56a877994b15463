"""How many threads do the work: what `joblib.parallel_config(n_jobs=...)` says, one where nothing is said."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from threading import Lock

from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from .progress import track

SHARED = 1e8  # multiplications, about five milliseconds, from which on threads of BLAS pay
LARGE = 5e8  # from which on plain threads do, which take longer to start


def parallel(**settings):
    """`joblib.Parallel` with the active n_jobs, which joblib forgets where it has to put threads for processes."""
    return Parallel(n_jobs=effective_n_jobs(None), **settings)


def threads(**settings):
    """`parallel` in threads of this process, whatever the active backend: for work that shares memory."""
    return parallel(require="sharedmem", **settings)


def in_threads(function, pieces, n_threads=None, label=None):
    """[function(piece) for each piece], on plain threads, by default one a core: for kernels that release the lock.

    Not by joblib, which polls for results: a hundredth of a second, longer than many kernels take. label: that of a
    progress bar.
    """
    n_threads = min(n_threads or cpu_count(), len(pieces))
    if n_threads <= 1:
        return _tracked(map(function, pieces), label, len(pieces))
    with ThreadPoolExecutor(n_threads) as pool:
        return _tracked(pool.map(function, pieces), label, len(pieces))


def _tracked(results, label, total):
    return list(track(results, label, total) if label else results)


def spread(function, tasks, prefer, label):
    """[function(*task) for each task] where joblib's active backend, or else `prefer`, has it done.

    What shares this process' memory runs on plain threads; processes and clusters are joblib's.
    """
    if getattr(get_active_backend(prefer=prefer)[0], "supports_sharedmem", False):
        return in_threads(lambda task: function(*task), tasks, effective_n_jobs(None), label)
    results = parallel(prefer=prefer, return_as="generator")(
        delayed(function)(*task) for task in tasks
    )
    return _tracked(results, label, len(tasks))


@cache
def _blas():
    """The BLAS libraries of this process: to look for them takes longer than many kernels do."""
    return ThreadpoolController().select(user_api="blas")


class _OneBlasThread:
    """BLAS on one thread while anyone is inside: the limit is the whole process', so the last to leave lifts it."""

    def __init__(self):
        self._lock, self._inside, self._limit, self._before = Lock(), 0, None, 1

    def n_threads(self):
        """How many threads BLAS may use, or might if nobody were inside."""
        with self._lock:
            return self._before if self._inside else _blas_threads()

    def __enter__(self):
        with self._lock:
            if not self._inside:
                self._before, self._limit = _blas_threads(), _blas().limit(limits=1)
            self._inside += 1

    def __exit__(self, *_):
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


def _blas_threads():
    return max((each["num_threads"] for each in _blas().info()), default=1)


one_blas_thread = _OneBlasThread()


def blas_for(multiplications):
    """BLAS on one thread where there is less to do than is worth sharing: threads would wait longer than they work."""
    return one_blas_thread if multiplications < SHARED else nullcontext()


def blas_beside_threads(multiplications):
    """`blas_for`, but one thread where `shares` has plain threads do the work: those of BLAS spin on when done."""
    return one_blas_thread if multiplications >= LARGE else blas_for(multiplications)


def in_blas_threads(function, pieces, label=None):
    """`in_threads`, as many as BLAS would use, each calling BLAS alone: for pieces too small to share."""
    n_threads = one_blas_thread.n_threads()
    with one_blas_thread:
        return in_threads(function, pieces, n_threads, label)


def pieces(stop, size, start=0):
    """Slices of at most `size` that make up start ... stop - 1."""
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]


def shares(length, multiplications):
    """Slices of 0 ... length - 1 for `in_threads`: as many as BLAS would use threads, one where there is too little."""
    n_threads = one_blas_thread.n_threads() if multiplications >= LARGE else 1
    return pieces(length, max(-(-length // n_threads), 1))
