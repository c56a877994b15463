"""Hidden field on 384 tracts: every method in log-partition evaluations, and beside its rivals.

Ratios within this run, medians where a call is short; simulated counts where the real map is not to
be found. opt_einsum, whose contraction of the whole field gives the same log-partition, joins where
it is installed.
"""

import importlib.util

import numpy as np
from _measure import median_seconds, report, timed
from acvbook.datasets import load_or_simulate
from acvbook.studies import mrf
from acvbook.studies.mrf import em

import acvlib as acv
from acvlib.derivatives import Derivatives
from acvlib.inference import graph

BETA = 0.4


def potentials(model, params):
    """Node and edge potentials of the whole field."""
    return model.potentials(model.log_densities(params), model.factors(np.ones(model.n_sites)))


def one_evaluation(model, fit, one):
    """Seconds of one log-partition, and what its derivatives cost in units of it."""
    node, edge = potentials(model, fit.params)
    unit = median_seconds(lambda: graph.log_partition(node, edge, model.elimination), 25)
    print(f"one log-partition, width {model.elimination.width}: {1000 * unit:.2f} ms")
    report(
        "marginals, in log-partitions",
        seconds(lambda: graph.GraphPosterior(node, edge, model.elimination).marginals()) / unit,
    )
    own, plain = model.derivatives, Derivatives(model)
    gradient = seconds(lambda: own.value_and_gradient(fit.params, one))
    report("gradient, in log-partitions", gradient / unit)
    hessian = seconds(lambda: own.hessian(fit.params, one))
    report("H, in log-partitions", hessian / unit)
    cross = seconds(lambda: own.cross_matrix(fit.params, one))
    report("J, in log-partitions", cross / unit)
    by_autograd = seconds(lambda: plain.hessian(fit.params, one))
    report("H by autograd over closed form", by_autograd / hessian)
    return unit


def seconds(function, repeats=9):
    return median_seconds(function, repeats)


def whole_cv(model, fit, unit):
    """All 384 folds by every rung, warm, and by EM from scratch."""
    folds = acv.folds.leave_one_out(model.n_sites)
    acv.infinitesimal_jackknife(fit, folds[:8])
    acv_seconds, _ = timed(lambda: acv.infinitesimal_jackknife(fit, folds))
    report(f"{len(folds)}-fold ACV, in log-partitions", acv_seconds / unit, 1000)
    for rung in (acv.no_adjustment, acv.frozen_newton, acv.newton_step):
        report(
            f"{rung.__name__} over ACV", timed(lambda rung=rung: rung(fit, folds))[0] / acv_seconds
        )
    exact_seconds, exact = timed(lambda: acv.exact(fit, folds))
    assert exact.diagnostics["decrement"].max() <= 1e-6
    report("exact over ACV", exact_seconds / acv_seconds, 10)
    cold_seconds, cold = timed(lambda: mrf.cold_em(model, fit, folds))
    report("EM from scratch over ACV", cold_seconds / acv_seconds)
    report("EM from scratch over exact", cold_seconds / exact_seconds)
    report(
        "EM from scratch, largest distance from exact, in SE",
        acv.theta_errors(exact, cold).max(),
        1e-5,
    )


def fits(model):
    """EM and the gradient fit: where they end and what they cost."""
    gradient_seconds, fit = timed(lambda: acv.fit(model), 3)
    em_seconds, by_em = timed(lambda: em(model), 3)
    report("EM minus gradient fit, log rates", np.abs(by_em.params - fit.params).max(), 1e-6)
    report("EM over gradient fit, seconds", em_seconds / gradient_seconds)
    return fit


def einsum(model, params, unit):
    """One log-partition by opt_einsum, its path found beforehand."""
    import opt_einsum

    node, edge = potentials(model, params)
    scaled = [np.exp(row - row.max()) for row in node] + [
        np.exp(table - table.max()) for table in edge
    ]
    scopes = [[i] for i in range(model.n_sites)] + [list(map(int, pair)) for pair in model.edges]
    operands = [part for pair in zip(scaled, scopes, strict=True) for part in pair[:1] + (pair[1],)]
    path, _ = opt_einsum.contract_path(*operands, [], optimize="random-greedy-128")
    peer, z = timed(lambda: opt_einsum.contract(*operands, [], optimize=path), 3)
    log_z = np.log(z) + node.max(axis=1).sum() + edge.max(axis=(1, 2)).sum()
    report(
        "opt_einsum: difference of log Z",
        abs(log_z - graph.log_partition(node, edge, model.elimination)),
        1e-8,
    )
    report("opt_einsum: our seconds over its own", unit / peer, 1)


def main():
    data = load_or_simulate("philadelphia", np.random.default_rng(1))
    model = mrf.hidden_field(data, BETA)
    print(data)
    report("finding the order, in seconds", timed(lambda: model.elimination)[0])
    fit = fits(model)
    unit = one_evaluation(model, fit, np.ones(model.n_sites))
    whole_cv(model, fit, unit)
    if importlib.util.find_spec("opt_einsum"):
        einsum(model, fit.params, unit)


if __name__ == "__main__":
    main()
