"""What a certificate costs beside the step that it certifies, in processor time of one thread."""

import time
from functools import partial

import numpy as np
from _measure import report
from acvbook.studies.glm_errors import truth

import acvlib as acv
from acvlib.models import GLM


def processor_ratio(numerator, denominator, repeats=9):
    """Processor seconds of one call over another's, each the fastest of several taken in turns."""
    marks = [time.process_time()]
    for call in (numerator, denominator) * repeats:
        call()
        marks.append(time.process_time())
    return np.divide(*np.diff(marks).reshape(repeats, 2).min(axis=0))


def logistic(n, dim):
    """The fit of a logistic regression."""
    rng = np.random.default_rng(0)
    return acv.fit(GLM(*truth("logistic", dim, rng).draw(n, rng), "logistic", penalty=1.0))


def single_rows(n, dim, limit=None):
    """All rows left out one by one: by the leverages that the Newton step has."""
    fit, folds = logistic(n, dim), acv.folds.leave_one_out(n)
    result = acv.newton_step(fit, folds)
    assert acv.certify(result).certified.mean() >= 0.99
    share = processor_ratio(lambda: acv.certify(result), lambda: acv.newton_step(fit, folds))
    report(f"certify over newton_step, {n:,} single rows, D = {dim}", share, limit)


def larger_folds(n, dim, n_folds):
    """Folds of many rows: beside a step with Hessians of the folds' own, ours, and the refits."""
    fit, folds = logistic(n, dim), acv.folds.k_fold(n, n_folds, 0)
    result = acv.newton_step(fit, folds)
    derivatives = acv.derivatives_of(fit.model)

    def own_step():
        _, gradients = derivatives.fold_gradients(result.params, folds, values=False)
        return result.params - derivatives.fold_hessians(result.params, folds).solve(gradients)

    rivals = {"a step with Hessians of the folds' own": (own_step, 1.5)}
    for method in (acv.newton_step, acv.exact):
        rivals[method.__name__] = (partial(method, fit, folds), None)
    for name, (rival, limit) in rivals.items():
        share = processor_ratio(lambda: acv.certify(result), rival)
        report(f"certify over {name}, {n_folds} folds of {n:,} rows", share, limit)


def all_sets(n, k):
    """Proofs over all sets of at most k rows, beside the greedy search for one."""
    fit, phi = logistic(n, 5), lambda p: p[1]
    less = acv.fit(GLM(fit.model.X[:, 1:], fit.model.y, "logistic", penalty=1.0))
    search = partial(acv.most_influential, fit, phi, k, "greedy")
    proofs = {"most_influential(certify=True)": partial(search, certify=True)}
    proofs["robustness_interval"] = partial(acv.robustness_interval, fit, phi, k)
    proofs["same_choice"] = partial(acv.same_choice, fit, less, k)
    for name, proof in proofs.items():
        report(f"{name} over a greedy search, {k} of {n:,}", processor_ratio(proof, search, 3))


def main():
    for n, dim, limit in ((100_000, 100, 1.5), (10_000, 100, 1.5), (1000, 30, None)):
        single_rows(n, dim, limit)
    larger_folds(20_000, 50, 20)
    all_sets(2000, 5)


if __name__ == "__main__":
    main()
