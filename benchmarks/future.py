"""Leave-future-out at every origin and the most influential sites of the traffic series.

Ratios within this run: everything but the refits in gradients, refitting each over ours, and the
greedy search in refits.
"""

import time
import warnings

import numpy as np
from _measure import ratio, report
from acvbook import datasets
from acvbook.studies import future
from acvbook.studies.ladders import timed

import acvlib as acv

N_REFITS = 64


def gradients(series, anchors):
    """Processor time of all origins without the refits, in evaluations of F with its gradient."""
    model, fit, starts = series
    own, ones = acv.derivatives_of(model), np.ones(model.n_sites)
    found = acv.leave_future_out(fit, starts, anchors=anchors)
    folds = found.folds(np.flatnonzero(found.refitted))

    def refits():
        for fold in acv.exact(fit, folds).folds:
            own.hessian(fit.params, acv.folds.weights(model.n_sites, fold))

    def seconds(call):
        return min(timed(call, time.process_time)[1] for _ in range(15))

    whole = seconds(lambda: acv.leave_future_out(fit, starts, anchors=anchors))
    return (whole - seconds(refits)) / seconds(lambda: own.value_and_gradient(fit.params, ones))


def every_origin(series):
    """All counts after four weeks, by two refits and by sixteen."""
    report("all origins, two refits apart, in gradients", gradients(series, 2), 30)
    report("all origins, sixteen refits apart, in gradients", gradients(series, 16))
    rows = np.linspace(0, len(series.starts) - 1, N_REFITS).astype(int)
    ours = acv.leave_future_out(series.fit, series.starts, anchors=16)
    folds = ours.folds(rows)
    share = ratio(
        lambda: acv.exact(series.fit, folds),
        lambda: acv.leave_future_out(series.fit, series.starts, anchors=16),
        3,
    )
    ahead = share * len(series.starts) / N_REFITS
    report("refitting each origin over ours", ahead, 20, at_least=True)


def deciding_counts(series):
    """Twenty counts that decide when the night ends, one after the other."""
    model, fit, _ = series
    one = acv.Folds([np.flatnonzero(model.observed)[:1]])
    refits = ratio(
        lambda: acv.most_influential(fit, lambda p: p[9], 20, "greedy"),
        lambda: acv.exact(fit, one),
        3,
    )
    report("greedy search for 20 counts, in refits", refits, 60)


def main():
    warnings.simplefilter("ignore", UserWarning)  # of origins that two refits leave too far
    series = future.traffic(datasets.load_or_simulate("dodgers", np.random.default_rng(0)))
    every_origin(series)
    deciding_counts(series)


if __name__ == "__main__":
    main()
