"""Genes clustered by their regressions: the jackknife in refits, and beside other software.

Ratios within this run, on a simulated stand-in of the real set's size: 700 genes,
8 degrees of freedom, D = 54,797.
"""

import autograd
import numpy as np
from _measure import report, timed
from acvbook.datasets import simulate_genomics
from acvbook.gene_clusters.regression import GeneRegression
from acvbook.studies import genomics
from scipy.optimize import minimize
from scipy.sparse import block_array, block_diag
from scipy.sparse.linalg import splu

import acvlib as acv


def problem(df=8):
    """(model, fit, all 63 folds)."""
    rng = np.random.default_rng(0)
    data = simulate_genomics(rng)
    model = genomics.clustering(data.replicates(rng)[data.train], data.hours, df)
    folds = [fold for size in (1, 2, 3) for fold in genomics.left_out(size)]
    return model, acv.fit(model), folds


def in_refits(model, fit, folds):
    """The jackknife for all folds, and one frozen step, in refits; scoring included."""
    exact = acv.exact(fit, folds[::7])
    assert exact.diagnostics["residual"].max() <= 1e-8
    refit = exact.seconds / len(exact.folds)
    for rung, limit in ((acv.infinitesimal_jackknife, 3), (acv.frozen_newton, None)):
        seconds, _ = timed(lambda rung=rung: rung(fit, folds), 3)
        report(f"{rung.__name__}, all {len(folds)} folds, in refits", seconds / refit, limit)


def blocks_beside_autograd(model, fit, n_genes=10):
    """A gene's block of H in closed form, and by autograd gene by gene as in the paper."""
    one, ones = model.stage_one, np.ones(model.n_sites)
    genes = model.split(fit.params)[0]
    seconds, blocks = timed(lambda: one.hessian(genes, ones), 3)

    def by_autograd():
        few = GeneRegression(model.basis, model.expression[:n_genes])
        rows = [
            lambda g, k=k: few.residual(_replaced(genes[:n_genes], k, g), ones)[k]
            for k in range(n_genes)
        ]
        return np.array([autograd.jacobian(row)(genes[k]) for k, row in enumerate(rows)])

    slow, same = timed(by_autograd)
    report("a gene's block, over autograd's", seconds / len(genes) / (slow / n_genes), 0.1)
    report(
        "largest difference of the blocks, relative",
        abs(blocks[:n_genes] - same).max() / abs(same).max(),
        1e-9,
    )


def _replaced(genes, k, row):
    return autograd.numpy.concatenate([genes[:k], row[None], genes[k + 1 :]])


def elimination_beside_superlu(model, fit):
    """Solving by blocks, over scipy's splu of the whole H in its default order."""
    cross = model.derivatives.cross_matrix(fit.params, np.ones(model.n_sites))
    jacobian = fit.hessian
    coupling = (jacobian.coupling.T @ np.eye(len(jacobian.last))).T
    blocks = block_diag(jacobian.blocks)
    whole = block_array([[blocks, None], [coupling, jacobian.last]], format="csc")
    seconds, ours = timed(lambda: jacobian.solve(cross), 3)
    slow, theirs = timed(lambda: splu(whole).solve(cross))
    report("block elimination, over splu of the whole H", seconds / slow, 1)
    report(
        "largest difference of the solutions, relative",
        abs(ours - theirs).max() / abs(theirs).max(),
        1e-8,
    )


def newton_beside_trust_ncg(model, fit, fold):
    """Refitting a fold's clustering, over scipy's trust-ncg preconditioned by Cholesky."""
    weights, two = acv.folds.weights(model.n_sites, fold), model.stage_two
    positions = two.positions(model.stage_one.solve(weights))
    genes, start = model.split(fit.params)
    lower = np.linalg.cholesky(two.hessian(start, model.positions(genes)))
    back = np.linalg.inv(lower).T
    seconds, found = timed(lambda: model.solve(fit.params, weights), 3)

    def trust_ncg():
        return minimize(
            lambda p: two.objective(start + back @ p, positions),
            np.zeros_like(start),
            jac=lambda p: back.T @ two.gradient(start + back @ p, positions),
            hess=lambda p: back.T @ two.hessian(start + back @ p, positions) @ back,
            method="trust-ncg",
            options={"gtol": 1e-6},
        )

    slow, theirs = timed(trust_ncg)
    report("a refit, over trust-ncg with a Cholesky preconditioner", seconds / slow, 1)
    gain = two.objective(start + back @ theirs.x, positions) - two.objective(
        model.split(found.params)[1], positions
    )
    report("objective of trust-ncg less ours", gain)


def main():
    model, fit, folds = problem()
    in_refits(model, fit, folds)
    blocks_beside_autograd(model, fit)
    elimination_beside_superlu(model, fit)
    newton_beside_trust_ncg(model, fit, folds[0])


if __name__ == "__main__":
    main()
