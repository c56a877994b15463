"""TreeCV on files beside arrays: time and memory; kfold on a cluster beside one process."""

import subprocess
import sys
import tempfile

import numpy as np
import pyarrow
import pyarrow.parquet
from _measure import ratio, report

import acvlib as acv

PEAK = """
import sys, threading, time
import acvlib as acv
def own():  # without mapped files, which the system takes back when it needs the memory
    return int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) / 1024
def watch():
    while True:
        seen.append(own())
        time.sleep(0.002)
learner = acv.learners.lsqsgd(50, 0.01)
acv.treecv(learner, acv.Examples.of(sys.argv[1] + "/small.parquet", "y"), 10)
before, seen = own(), [0.0]
threading.Thread(target=watch, daemon=True).start()
data = acv.Examples.of(sys.argv[1] + "/large.parquet", "y", memory=int(sys.argv[2]))
acv.treecv(learner, data, 100, shuffle=False)
print(max(seen) - before)
"""


def peak(folder, memory):
    """Megabytes above those of a small file."""
    command = [sys.executable, "-c", PEAK, folder, str(memory)]
    return float(subprocess.check_output(command, text=True))


def files(n=600_000, d=50):
    """A file of 240 MB in twelve row groups, a file of its first rows, and the array."""
    folder = tempfile.mkdtemp()
    X = np.random.default_rng(0).normal(size=(n, d))
    names = [*(f"x{j}" for j in range(d)), "y"]
    table = pyarrow.table([*X.T, X[:, 0]], names=names)
    plain = {"use_dictionary": False, "compression": "none"}
    pyarrow.parquet.write_table(table[:100], folder + "/small.parquet")
    pyarrow.parquet.write_table(table, folder + "/large.parquet", row_group_size=n // 12, **plain)
    return folder, acv.Examples(X, X[:, 0])


def streamed():
    """A file that is not held in memory beside one that is, and beside the array."""
    folder, array = files()
    learner = acv.learners.lsqsgd(50, 0.01)

    def run(memory):
        data = acv.Examples.of(folder + "/large.parquet", "y", memory=memory)
        return acv.treecv(learner, data, 100, shuffle=False)

    in_array = acv.treecv(learner, array, 100, shuffle=False)
    assert np.array_equal(run(0).pointwise, in_array.pointwise)
    share = ratio(lambda: run(0), lambda: run(2**40), 3)
    report("treecv on 240 MB of Parquet: seconds on disk over those in memory", share, 4)
    share = peak(folder, 0) / peak(folder, 2**40)
    report("treecv on 240 MB of Parquet: peak memory on disk over that in memory", share, 0.35)


class Costly:
    """Least squares that take a millisecond a row's hundred: what a cluster is for."""

    learner = acv.learners.lsqsgd(5, 0.05)
    init, loss = learner.init, learner.loss

    def update(self, state, X, y):
        for _ in range(40):
            after = Costly.learner.update(state.copy(), X, y)
        return after


def cluster():
    """kfold on two Dask workers, by joblib, beside one process."""
    import joblib
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 5))
    data = acv.Examples(X, X[:, 0])
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}

    def one():
        return acv.kfold(Costly(), data, 20)

    def on_dask():
        with joblib.parallel_config(backend="dask"):
            return one()

    with LocalCluster(**options) as local, Client(local):
        assert np.array_equal(one().pointwise, on_dask().pointwise)
        report("kfold on two Dask workers: seconds over one process", ratio(on_dask, one, 2))


def main():
    streamed()
    cluster()
