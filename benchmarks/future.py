"""Leave-future-out at every origin and the most influential sites of the traffic series.

Ratios within this run: everything but the refits in gradients, refitting each over ours, and the
greedy search in refits.
"""

import warnings

import numpy as np
from _measure import ratio, report
from acvbook import datasets
from acvbook.studies import future

import acvlib as acv

N_REFITS = 64


def every_origin(series):
    """All counts after four weeks, by two refits and by sixteen."""
    report("all origins, two refits apart, in gradients", future.gradients(series, 2), 30)
    report("all origins, sixteen refits apart, in gradients", future.gradients(series, 16))
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
