"""What a certificate costs beside the step that it certifies, in processor time of one thread."""

import time

import numpy as np
from _measure import report
from acvbook.studies.glm_errors import truth

import acvlib as acv
from acvlib.models import GLM


def processor_ratio(numerator, denominator, repeats=9):
    """Processor seconds of one call over another's, each the fastest of several taken in turns."""
    spent = []
    for _ in range(repeats):
        marks = [time.process_time()]
        for call in (numerator, denominator):
            call()
            marks.append(time.process_time())
        spent.append(np.diff(marks))
    above, below = np.min(spent, axis=0)
    return above / below


def logistic(n, dim):
    """A logistic regression, its fit."""
    rng = np.random.default_rng(0)
    model = GLM(*truth("logistic", dim, rng).draw(n, rng), "logistic", penalty=1.0)
    return model, acv.fit(model)


def single_rows(n, dim, limit=None):
    """All rows left out one by one: by the leverages that the Newton step has."""
    model, fit = logistic(n, dim)
    folds = acv.folds.leave_one_out(n)
    result = acv.newton_step(fit, folds)
    assert acv.certify(result).certified.mean() >= 0.99
    share = processor_ratio(lambda: acv.certify(result), lambda: acv.newton_step(fit, folds))
    report(f"certify over newton_step, {n:,} single rows, D = {dim}", share, limit)


def larger_folds(n, dim, n_folds):
    """Folds of many rows: beside a step with Hessians of the folds' own, ours, and the refits."""
    model, fit = logistic(n, dim)
    folds = acv.folds.k_fold(n, n_folds, 0)
    result = acv.newton_step(fit, folds)
    derivatives = acv.derivatives_of(model)

    def own_step():
        _, gradients = derivatives.fold_gradients(result.params, folds, values=False)
        hessians = derivatives.fold_hessians(result.params, folds)
        return result.params - hessians.solve(gradients)

    rivals = {
        "a step with Hessians of the folds' own": (own_step, 1.5),
        "newton_step": (lambda: acv.newton_step(fit, folds), None),
        "exact": (lambda: acv.exact(fit, folds), None),
    }
    for name, (rival, limit) in rivals.items():
        share = processor_ratio(lambda: acv.certify(result), rival)
        report(f"certify over {name}, {n_folds} folds of {n:,} rows", share, limit)


def main():
    single_rows(100_000, 100, 1.5)
    single_rows(10_000, 100, 1.5)
    single_rows(1000, 30)
    larger_folds(20_000, 50, 20)


if __name__ == "__main__":
    main()
