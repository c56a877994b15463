"""How many threads do the work: what `joblib.parallel_config(n_jobs=...)` says, one where nothing is said."""

from joblib import Parallel, effective_n_jobs


def parallel(**settings):
    """`joblib.Parallel` with the active n_jobs, which joblib forgets where it has to put threads for processes."""
    return Parallel(n_jobs=effective_n_jobs(None), **settings)


def threads(**settings):
    """`parallel` in threads of this process, whatever the active backend: for work that shares memory."""
    return parallel(require="sharedmem", **settings)
