"""_first_edition.py CHECKOUT: every chapter's job in this tree and in a checkout of another
edition.

`git worktree add CHECKOUT 27b222d` makes one of the first edition. Each job runs in a process of
its own for each tree, in turns; a row is our median seconds over the other edition's, and the
largest relative difference of what both computed. Not part of `make bench`, which has no other
checkout.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.3
ROUNDS = 3


def traffic_series(n_sites, rng):
    """(counts, day) with clear but overlapping events."""
    day = (np.arange(n_sites) // 288) % 7
    event = np.cumsum(rng.random(n_sites) < 0.05) % 2
    counts = rng.poisson(8.0 + day) + event * rng.negative_binomial(4.0, 0.4, n_sites)
    return counts, day


def traffic(acv, rng, n_sites=10_000, n_folds=1_000):
    model = acv.models.PoissonTraffic(*traffic_series(n_sites, rng))
    folds = acv.folds.iid(n_sites, 10, n_folds, rng)
    return model, acv.fit(model), folds


def long_traffic(acv, rng):
    return traffic(acv, rng, n_sites=50_400, n_folds=200)


def logistic(acv, rng, n=10_000, dim=100):
    x = rng.standard_normal((n, dim))
    y = (rng.random(n) < 1 / (1 + np.exp(-x[:, :10].sum(axis=1)))).astype(float)
    model = acv.models.GLM(x, y, "logistic", penalty=1.0)
    return model, acv.fit(model), acv.folds.leave_one_out(n)


def large_logistic(acv, rng):
    return logistic(acv, rng, n=100_000)


def sentences(acv, rng, n=3_000, n_tags=9):
    labels = [rng.integers(0, n_tags, rng.integers(2, 40)) for _ in range(n)]
    scores = [3.0 * np.eye(n_tags)[z] + 2.0 * rng.standard_normal((len(z), n_tags)) for z in labels]
    model = acv.models.LinearChainCRF(scores, labels, ridge=1.0)
    folds = np.sort(rng.choice(n, 500, replace=False))[:, None]
    return model, acv.fit(model), folds


def grid_edges(rows, columns):
    cell = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([cell[:, :-1].ravel(), cell[:, 1:].ravel()], axis=1)
    down = np.stack([cell[:-1].ravel(), cell[1:].ravel()], axis=1)
    return np.concatenate([across, down])


def field(acv, rng):
    low = rng.random(384) < 0.6
    counts = rng.poisson(np.where(low, 3.0, 12.0))
    model = acv.models.HiddenMRF(counts, grid_edges(12, 32), 0.6)
    return model, acv.fit(model), acv.folds.leave_one_out(384)


def recordings(acv, rng, order=2):
    x = [np.cumsum(rng.normal(size=(80, 12)), axis=0) * 0.3 for _ in range(40)]
    model = acv.models.AutoRegressiveHMM(x, 6, order)
    start = rng.normal(size=model.n_params) * 0.01 + model.params_of_labels(
        np.concatenate([np.arange(80 - order) // 14 for _ in x])
    )
    return model, acv.fit(model, start=start), acv.folds.leave_one_out(40)


def gaussian_chain(acv, rng):
    state = np.cumsum(rng.random(1_500) < 0.05) % 5
    x = rng.normal(size=(1_500, 6)) + 2.0 * np.eye(5, 6)[state]
    model = acv.models.GaussianHMM(x, 5)
    start = model.params_of_labels(state)
    return model, acv.fit(model, start=start), acv.folds.iid(1_500, 5, 20, rng)


METHODS = {
    traffic: ("infinitesimal_jackknife", "frozen_newton", "newton_step", "exact"),
    long_traffic: ("infinitesimal_jackknife", "frozen_newton", "newton_step", "exact"),
    logistic: ("infinitesimal_jackknife", "newton_step", "exact"),
    large_logistic: ("infinitesimal_jackknife", "newton_step"),
    sentences: ("infinitesimal_jackknife", "frozen_newton", "newton_step", "exact"),
    field: ("infinitesimal_jackknife", "frozen_newton", "newton_step", "exact"),
    recordings: ("infinitesimal_jackknife", "newton_step", "exact"),
    gaussian_chain: ("infinitesimal_jackknife", "frozen_newton", "newton_step", "exact"),
}


def measure(name):
    """Seconds and losses of one job, in the tree that PYTHONPATH names: a line of JSON."""
    import acvlib as acv

    job = next(job for job in METHODS if job.__name__ == name)
    model, fit, folds = job(acv, np.random.default_rng(0))
    found = {}
    tick = time.perf_counter()
    acv.fit(model, start=fit.params + 1e-3)
    found["refit"] = [time.perf_counter() - tick, float(fit.objective)]
    for method in METHODS[job]:
        run = getattr(acv, method)
        run(fit, folds)  # compiles
        times, result = [], None
        for _ in range(3):
            result = run(fit, folds)
            times.append(result.seconds)
        by_fold = result.losses if hasattr(result, "losses") else result.pointwise
        losses = np.concatenate([np.ravel(each) for each in by_fold])
        found[method] = [statistics.median(times), losses.tolist()]
    print(json.dumps(found))


def in_tree(tree, name):
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--measure", name]
    done = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} in {tree}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main(checkout, *names):
    chosen = names or [job.__name__ for job in METHODS]
    for name in chosen:
        pairs = [(in_tree(ROOT, name), in_tree(checkout, name)) for _ in range(ROUNDS)]
        ours, theirs = pairs[-1]
        for method in ours:
            ratios = [mine[method][0] / other[method][0] for mine, other in pairs]
            a, b = np.array(ours[method][1]), np.array(theirs[method][1])
            difference = np.max(np.abs(a - b) / (1.0 + np.abs(b)))
            median = statistics.median(ratios)
            verdict = "ok" if median <= LIMIT else "SLOWER"
            spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
            print(
                f"{name:<16} {method:<24} {median:6.2f} ({spread}) of {theirs[method][0]:8.3f} s "
                f"difference {difference:.1e} {verdict}",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1] == "--measure":
        measure(sys.argv[2])
    else:
        main(*sys.argv[1:])
