"""Law 13: a proof is a proof: whatever is handed to `certify`, its bounds hold in exact arithmetic.

Here: refits with 50 digits.
"""

import warnings

import numpy as np
from hypothesis import strategies as st
from oracles.high_precision import refit, sites_of

import acvlib as acv
from acvlib import models

from .doors import DOORS, METHODS, rows
from .law import SEEDS, Refused, ask, cases, hold


@cases("proof", ["GLM logistic", "GLM poisson"])
def test_bounds_hold_in_exact_arithmetic(name):
    """In any unit of a column, for single rows and folds, and for large counts."""
    family = name.split()[1]

    def check(seed, exponent, level, single, size, place):
        rng = np.random.default_rng(seed)
        data = rows(rng, family)
        X, y, unit = data["X"] + level, data["y"], 10.0**exponent
        y = np.round(y * 10.0**size) if family == "poisson" else y
        X[:, 0] *= unit
        penalty = 0.5 * np.array([unit**2, 1.0])
        fold = np.arange(len(y)) if single else data["fold"]
        model = models.GLM(X, y, family, penalty=penalty)
        folds = [np.flatnonzero(fold == k) for k in np.unique(fold)]
        try:
            with warnings.catch_warnings():  # a proof may start anywhere
                warnings.simplefilter("ignore")
                fit = ask(acv.fit, model)
                result = ask(METHODS[place], fit, acv.Folds(folds))
        except Refused:
            return  # law 1 has what is refused for its unit
        proof = ask(acv.certify, result)
        low, high = proof.lower.pointwise, proof.upper.pointwise
        assert (low <= high).all()
        sites, ridge = sites_of(model)
        for row in proof.certified.nonzero()[0][:8]:
            left = [sites[n] for n in np.setdiff1d(np.arange(len(y)), folds[row])]
            theta = refit(left, ridge, proof.result.params[row])
            for n in folds[row]:
                assert low[n] <= sites[n].loss(theta) <= high[n]

    drawn = {"exponent": st.sampled_from([0, 0, -4, 4, 8]), "single": st.booleans()}
    drawn |= {"level": st.sampled_from([-3, -3, 2017, 450_000])}
    drawn |= {"size": st.sampled_from([0, 3, 7, 9]), "place": st.sampled_from([0, 1, 3, 4])}
    hold(check, 30, seed=SEEDS, **drawn)


CERTIFIED = ("GLM logistic", "GLM poisson", "LinearChainCRF")
LEAVE = ("GLM gaussian", "GLM multinomial", "SemiSupervised", "PairwiseLinear", "FeatureCRF")


@cases("proof", LEAVE, "or absent")
def test_what_is_not_proved_is_refused(name):
    """Rigorous, or absent: an interval holds the loss of exact refits, or there is none."""
    door = DOORS[name]
    data = door.data(np.random.default_rng(0))
    model = door.model(**data)
    fit = acv.fit(model, tolerance=1e-10)
    observed = getattr(model, "observed", None)
    folds = acv.folds.k_fold(model.n_sites, 3, observed=observed)
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
