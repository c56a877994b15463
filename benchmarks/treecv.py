"""TreeCV at the paper's sizes: passes over the data, random over fixed order, threads, a peer.

Ratios within this run; medians of several calls, after one that compiles. Simulated
data where the real are not found: these are times, not estimates.
"""

from functools import partial

import joblib
import numpy as np
from _measure import median_seconds, ratio, report
from acvbook import datasets
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import KFold, cross_val_score

import acvlib as acv
from acvlib.parallel import in_threads
from acvlib.treecv import learners


def leave_one_out(name, learner, data):
    """LOOCV of all rows, in fixed and random order, serial and on two threads."""
    n = len(data)
    rows = np.arange(n)

    def learn():
        learner.update_kernel(learner.init()[None], 0, learner.constants, *columns, rows, 0, n)

    columns = (data.X, data.y)
    one_pass = median_seconds(learn, 21)
    fixed = median_seconds(lambda: acv.treecv(learner, data, n, shuffle=False))
    randomized = median_seconds(
        lambda: acv.treecv(
            learner, data, n, shuffle=False, order="randomized", rng=np.random.default_rng(0)
        )
    )
    report(
        f"{name}: LOOCV of {n:,} rows in passes over log2(2n)",
        fixed / one_pass / np.log2(2 * n),
        1.3,
    )
    report(f"{name}: random over fixed order", randomized / fixed, 2.5)
    one, two = (partial(tree, learner, data, n_jobs) for n_jobs in (1, 2))
    report(f"{name}: serial over two threads", ratio(one, two), 1.6, at_least=True)
    report(f"{name}: the same of two runs that share nothing", 2 * ratio(one, partial(twice, one)))


def tree(learner, data, n_jobs):
    """LOOCV of all rows on so many threads."""
    with joblib.parallel_config(n_jobs=n_jobs):
        acv.treecv(learner, data, len(data), shuffle=False)


def twice(function):
    """Two calls at once, in threads that share nothing."""
    in_threads(lambda _: function(), (0, 1), 2)


def folds(name, learner, data):
    """Passes over the data for few folds, and what standard cross-validation costs."""
    for k in (5, 10, 100):
        tree = median_seconds(lambda k=k: acv.treecv(learner, data, k, shuffle=False))
        standard = median_seconds(lambda k=k: acv.kfold(learner, data, k, shuffle=False), 3)
        report(f"{name}: standard over TreeCV, k = {k}", standard / tree)


def scikit_learn(data, k=100):
    """SGDClassifier: cross_val_score over treecv."""
    sgd = SGDClassifier(max_iter=1, tol=None, shuffle=False, random_state=0)
    learner = learners.PartialFit(sgd, classes=(-1.0, 1.0))
    tree = median_seconds(lambda: acv.treecv(learner, data, k, shuffle=False), 3)
    without = median_seconds(lambda: cross_val_score(sgd, data.X, data.y, cv=KFold(k)), 2)
    report(
        f"SGDClassifier, n = {len(data):,}, k = {k}: cross_val_score over treecv",
        without / tree,
        8,
        at_least=True,
    )


def main():
    rng = np.random.default_rng(0)
    forest = datasets.load_or_simulate("covtype", rng).spruce_fir()
    songs = datasets.simulate_msd(rng).regression("unit_variance")
    pairs = {
        "PEGASOS": (learners.pegasos(54), forest),
        "LSQSGD": (learners.lsqsgd(90, len(songs) ** -0.5), songs),
    }
    for name, (learner, data) in pairs.items():
        leave_one_out(name, learner, data)
        folds(name, learner, data)
    scikit_learn(forest.take(np.arange(100_000)))


if __name__ == "__main__":
    main()
