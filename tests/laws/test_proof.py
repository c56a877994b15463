"""Law 13: a proof is a proof: whatever is handed to `certify`, its bounds hold in exact arithmetic.

Here: refits with 50 digits of problems made to break certificates.
"""

import numpy as np
from oracles.campaign import HAZARDS, campaign

import acvlib as acv

from .doors import DOORS
from .law import NIGHTLY, PROFILE, Refused, ask, cases

FOLDS = {"quick": 120, "ci": 1_000, "nightly": 30_000}


@cases("proof", ["certify"])
def test_bounds_hold_in_exact_arithmetic(name):
    """In any unit, for single rows and folds, large counts, and params that are far off."""
    found = campaign(FOLDS[PROFILE], np.random.default_rng(None if NIGHTLY else 0))
    assert len(found) == len(HAZARDS)
    for hazard, (_, certified, distance, loss) in found.items():
        assert distance <= 1.0, hazard
        assert loss <= 1.0 + 1e-9, hazard  # places within intervals are divided by their widths
        assert certified, hazard


LEAVE = ("GLM gaussian", "GLM multinomial", "SemiSupervised", "PairwiseLinear", "FeatureCRF")


@cases("proof", LEAVE, "or absent")
def test_what_is_not_proved_is_refused(name):
    """Rigorous, or absent: an interval holds the loss of exact refits, or there is none."""
    door = DOORS[name]
    model = door.model(**door.data(np.random.default_rng(0)))
    fit = acv.fit(model, tolerance=1e-10)
    folds = acv.folds.k_fold(model.n_sites, 3, observed=getattr(model, "observed", None))
    result = acv.newton_step(fit, folds)
    try:
        proof = ask(acv.certify, result)
    except Refused as error:
        if isinstance(error.__cause__, ValueError | TypeError):
            return
        raise
    losses = acv.exact(fit, folds, tolerance=1e-10).pointwise
    seen = np.isfinite(losses)
    assert (proof.lower.pointwise[seen] - 1e-10 <= losses[seen]).all()
    assert (losses[seen] <= proof.upper.pointwise[seen] + 1e-10).all()
