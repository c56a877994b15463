"""Approximate CV with unlabelled points: beside t-fold CV, autograd's derivatives, W in memory.

Ratios within this run, on a simulated stand-in of cpusmall's shape.
"""

import numpy as np
from _measure import ratio, report, timed
from acvbook.datasets import simulate_libsvm
from acvbook.studies import general, general_tables
from autograd import hessian

import acvlib as acv
from acvlib.folds import k_fold
from acvlib.models import RBFAffinity


def problem(n):
    """(model, its 20 folds) of n rows."""
    rng = np.random.default_rng(0)
    model = general.semi_supervised(simulate_libsvm("cpusmall", rng).take(np.arange(n)), rng)
    return model, k_fold(model.n_sites, 20, rng, model.observed)


def beside_cross_validation(model, folds):
    """Jackknife and exact refits with shared sums, fits included, over t-fold CV built anew."""
    cv, (_, losses) = timed(lambda: general_tables.fold_by_fold(model, folds))
    expected = np.concatenate(losses).mean()
    for name, way in (
        ("approximate", acv.infinitesimal_jackknife),
        ("exact, shared", acv.exact),
    ):
        seconds, losses = timed(lambda way=way: general_tables.by(way, model, folds), 3)
        report(f"20-fold CV over {name} CV, fits included", cv / seconds, 10, at_least=True)
        found = np.concatenate(losses).mean()
        report(f"relative difference of the loss, {name}", abs(found / expected - 1.0))


def beside_autograd(model):
    """The Hessian in closed form, sums over pairs included, over autograd's with W in memory."""
    params, ones = np.full(model.energy.features.shape[1], 0.1), np.ones(model.n_sites)
    anew = general_tables.forgetful(model)
    seconds, ours = timed(lambda: np.asarray(anew.derivatives.hessian(params, ones)))
    slow, theirs = timed(lambda: hessian(model.objective)(params, ones))
    report("Hessian, over autograd's", seconds / slow, 1)
    report("largest relative difference", abs(ours - theirs).max() / abs(theirs).max(), 1e-8)


def beside_memory(model):
    """W times the features in blocks, over the same with W made whole."""
    points, sigma = model.energy.features, model.energy.affinity.sigma
    blocks = RBFAffinity(points, sigma)
    everything = np.arange(len(points))
    report(
        "blocks, over W made whole",
        ratio(lambda: blocks.product(points), lambda: blocks.entries(everything) @ points),
        1,
    )


def jackknife_by_folds(model):
    """20-fold over 5-fold: what more folds cost."""
    full = acv.fit(model)
    few, many = (
        k_fold(model.n_sites, t, np.random.default_rng(0), model.observed) for t in (5, 20)
    )
    runs = [lambda folds=folds: acv.infinitesimal_jackknife(full, folds) for folds in (many, few)]
    report("20-fold over 5-fold jackknife", ratio(*runs), 1.5)


def main():
    model, folds = problem(4000)
    beside_cross_validation(model, folds)
    beside_memory(model)
    jackknife_by_folds(model)
    beside_autograd(problem(1000)[0])


if __name__ == "__main__":
    main()
