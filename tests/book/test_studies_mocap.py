"""The studies of the chapter on motion capture, on recordings small enough to check otherwise."""

import numpy as np
import pytest
from acvbook.datasets.mocap import Mocap
from acvbook.studies import mocap_fits, mocap_orders

# 8 sequences say little about a network
pytestmark = pytest.mark.filterwarnings("ignore:.*indefinite Hessian")


def recordings(rng, n, length=25, channels=2):
    """Sequences of an autoregression that switches its direction now and then."""
    sequences = []
    for _ in range(n):
        x, sign = [rng.normal(size=channels)], 1.0
        for _ in range(length - 1):
            sign = -sign if rng.random() < 0.1 else sign
            x.append(0.7 * sign * x[-1] + sign + rng.normal(0.0, 0.5, channels))
        sequences.append(np.array(x))
    return Mocap(sequences, 30, "simulated", "")


FREE = {"dense_limit": 0}  # small models on the path of large ones


def test_the_summary_of_a_split():
    rng = np.random.default_rng(0)
    train, test = mocap_fits.split(recordings(rng, 12), 8, rng)
    given = 2, mocap_fits.emissions((0, 1), (1,)), np.random.default_rng(1), 2
    fitted = mocap_fits.fit_all(train.sequences, *given, context=2, **FREE)
    left_out = mocap_orders.leave_one_sequence_out
    studied = {name: left_out(one, test.sequences) for name, one in fitted.items()}
    table = mocap_orders.summary(studied)
    rungs, test = studied["AR(0)"].rungs, studied["AR(0)"].test
    exact, none, ij = (rungs[n] for n in ("exact", "no_adjustment", "infinitesimal_jackknife"))
    row = table.loc["AR(0)", "infinitesimal_jackknife"]
    both = np.hypot(exact.se, test.std(ddof=1) / np.sqrt(len(test)))
    theta = exact.fit.standard_errors_between(exact.params, ij.params)
    moves = exact.fit.standard_errors_between(exact.params, exact.fit.params)
    added = [cv.fold_losses - none.fold_losses for cv in (ij, exact)]
    known = {
        "loss": ij.fold_losses.mean(),
        "gap": abs(ij.loss - exact.loss) / exact.se,
        "track": abs(ij.loss - test.mean()) / both,
        "theta": np.median(theta),
        "share": np.median(theta) / np.median(moves),
        "beats_none": (theta < moves).mean(),
        "differences": np.corrcoef(*added)[0, 1],
    }
    assert row[[*known]].to_dict() == pytest.approx(known)
    over = test - studied["AR(1)"].test
    paired = over.mean() / over.std(ddof=1) * np.sqrt(len(over))
    assert table.over_ar1["AR(0)", "test"] == pytest.approx(paired)
    indefinite = studied["NAR(1)"].rungs["newton_step"].indefinite.sum()
    assert table.indefinite["NAR(1)", "newton_step"] == indefinite
